/**
 * Finding a repository, as git does: upward from a directory, at each step a `.git` directory, a `.git`
 * file (linked worktree, submodule), or the directory itself being a git directory.
 */
import { lstatSync, readFileSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, isAbsolute, join, resolve } from "node:path";
import { AgentqError } from "../errors.ts";

/** The directories of a repository before its configuration is looked at. */
export interface Discovered {
  readonly gitDir: string;
  readonly commonDir: string;
  /** The directory that holds `.git`, or null when the git directory was met without one. */
  readonly dotGitParent: string | null;
  /** GIT_WORK_TREE, when the environment decided. */
  readonly workTree?: string;
}

type Env = Readonly<Record<string, string | undefined>>;

function text(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return null;
  }
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

/** The common directory that `commondir` names, or the git directory itself. */
function commonDirOf(gitDir: string, env: Env): string {
  if (env.GIT_COMMON_DIR) return resolve(env.GIT_COMMON_DIR);
  const common = text(join(gitDir, "commondir"))?.replace(/\r?\n+$/, "");
  return common ? resolve(gitDir, common) : gitDir;
}

/** The git directory's common directory if it looks like one to git: HEAD, objects, refs; else null. */
function gitDirectory(path: string, env: Env): string | null {
  // HEAD may be a symbolic link to a branch that does not exist yet, so it is not followed.
  if (!lstatSync(join(path, "HEAD"), { throwIfNoEntry: false })) return null;
  const common = commonDirOf(path, env);
  const objects = env.GIT_OBJECT_DIRECTORY ?? join(common, "objects");
  return isDirectory(objects) && isDirectory(join(common, "refs")) ? common : null;
}

/** Where a `.git` file points. @throws `not-a-repository` when it points nowhere */
function followGitFile(path: string): string {
  const match = /^gitdir: (.*?)[\r\n]*$/s.exec(text(path) ?? "");
  if (!match) {
    throw new AgentqError("not-a-repository", `${path} is not a gitdir file.`, {
      details: { path },
    });
  }
  return resolve(dirname(path), match[1]!);
}

const REPAIR = "If its repository moved, run git worktree repair (or git submodule update) there.";

function ceilings(env: Env): Set<string> {
  const found = new Set<string>();
  for (const path of (env.GIT_CEILING_DIRECTORIES ?? "").split(":")) {
    if (!isAbsolute(path)) continue;
    try {
      found.add(realpathSync(path));
    } catch {
      found.add(path);
    }
  }
  return found;
}

/**
 * @param start a directory in a worktree, in a git directory, or a bare repository
 * @param env honoured variables (GIT_DIR, GIT_WORK_TREE, GIT_COMMON_DIR, GIT_OBJECT_DIRECTORY,
 *   GIT_CEILING_DIRECTORIES); pass `{}` where a repository is named explicitly
 * @throws `not-a-repository`
 */
export function discoverRepository(start: string, env: Env = {}): Discovered {
  if (env.GIT_DIR) {
    let gitDir = resolve(start, env.GIT_DIR);
    if (statSync(gitDir, { throwIfNoEntry: false })?.isFile()) gitDir = followGitFile(gitDir);
    const commonDir = gitDirectory(gitDir, env);
    if (commonDir === null) {
      throw new AgentqError(
        "not-a-repository",
        `GIT_DIR names ${gitDir}, which is no repository.`,
        {
          hint: "Correct or unset GIT_DIR.",
          details: { path: gitDir },
        },
      );
    }
    return {
      gitDir,
      commonDir,
      dotGitParent: resolve(start),
      ...(env.GIT_WORK_TREE ? { workTree: resolve(start, env.GIT_WORK_TREE) } : {}),
    };
  }
  let directory: string;
  try {
    directory = realpathSync(start);
  } catch (cause) {
    throw new AgentqError("not-a-repository", `There is no directory ${start}.`, {
      cause,
      details: { path: start },
    });
  }
  const stop = ceilings(env);
  for (let at = directory;;) {
    const dotGit = join(at, ".git");
    const stat = statSync(dotGit, { throwIfNoEntry: false });
    if (stat?.isFile()) {
      const gitDir = followGitFile(dotGit);
      const commonDir = gitDirectory(gitDir, env);
      if (commonDir === null) {
        throw new AgentqError(
          "not-a-repository",
          `${dotGit} points to ${gitDir}, which is no repository.`,
          {
            hint: REPAIR,
            details: { path: dotGit, gitDir },
          },
        );
      }
      return { gitDir, commonDir, dotGitParent: at };
    }
    if (stat?.isDirectory()) {
      const commonDir = gitDirectory(dotGit, env);
      if (commonDir !== null) return { gitDir: dotGit, commonDir, dotGitParent: at };
    }
    const commonDir = gitDirectory(at, env);
    if (commonDir !== null) {
      return { gitDir: at, commonDir, dotGitParent: parentOfGitDir(at, commonDir) };
    }
    const up = dirname(at);
    if (up === at || stop.has(up)) break;
    at = up;
  }
  throw new AgentqError("not-a-repository", `${directory} is not in a git repository.`, {
    details: { path: directory },
  });
}

/** The worktree of a git directory that was entered directly: `x/.git`, or a linked one's `gitdir` file. */
function parentOfGitDir(gitDir: string, commonDir: string): string | null {
  if (gitDir !== commonDir) {
    const pointer = text(join(gitDir, "gitdir"))?.trim();
    return pointer ? dirname(resolve(gitDir, pointer)) : null;
  }
  return basename(gitDir) === ".git" ? dirname(gitDir) : null;
}
