/**
 * Finding a repository, as git does: upward from a directory, at each step a `.git` directory, a `.git`
 * file (linked worktree, submodule), or the directory itself being a git directory.
 */
import { lstatSync, readFileSync, realpathSync, type Stats, statSync } from "node:fs";
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

/** What is at `path`, links followed; undefined for nothing, also where a file stands in place of a directory. */
function statOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    // Deno and Bun throw these where Node gives undefined.
    if (["ENOTDIR", "ENOENT"].includes((error as { code?: string }).code ?? "")) return undefined;
    throw error;
  }
}

function isDirectory(path: string): boolean {
  return statOf(path)?.isDirectory() ?? false;
}

/** The common directory that `commondir` names, or the git directory itself. */
function commonDirOf(gitDir: string, env: Env): string {
  if (env.GIT_COMMON_DIR) return resolve(env.GIT_COMMON_DIR);
  const common = text(join(gitDir, "commondir"))?.replace(/\r?\n+$/, "");
  return common ? resolve(gitDir, common) : gitDir;
}

/** The git directory's common directory if it looks like one to git: HEAD, objects, refs; else null. */
function gitDirectory(path: string, env: Env): string | null {
  if (!isDirectory(path)) return null;
  // HEAD may be a symbolic link to a branch that does not exist yet, so it is not followed.
  if (!lstatSync(join(path, "HEAD"), { throwIfNoEntry: false })) return null;
  const common = commonDirOf(path, env);
  const objects = env.GIT_OBJECT_DIRECTORY ?? join(common, "objects");
  return isDirectory(objects) && isDirectory(join(common, "refs")) ? common : null;
}

/** As long as git reads one; a path is far shorter. */
const MAX_GIT_FILE = 1 << 20;

/** Where a `.git` file points. @throws `not-a-repository` when it points nowhere */
function followGitFile(path: string): string {
  const large = (statOf(path)?.size ?? 0) > MAX_GIT_FILE;
  const match = large ? null : /^gitdir: (.*?)[\r\n]*$/s.exec(text(path) ?? "");
  if (!match?.[1]) {
    throw new AgentqError(
      "not-a-repository",
      `${path} is ${large ? "too large to be a gitdir file" : "not a gitdir file"}.`,
      { details: { path } },
    );
  }
  return resolve(dirname(path), match[1]);
}

/** What a `.git` file points to. It is followed once, as by git. @throws `not-a-repository` */
function behindGitFile(path: string, env: Env): { gitDir: string; commonDir: string } {
  const gitDir = followGitFile(path);
  const commonDir = gitDirectory(gitDir, env);
  if (commonDir !== null) return { gitDir, commonDir };
  throw new AgentqError(
    "not-a-repository",
    `${path} points to ${gitDir}, which is no repository.`,
    {
      hint: REPAIR,
      details: { path, gitDir },
    },
  );
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
    if (statOf(gitDir)?.isFile()) gitDir = followGitFile(gitDir);
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
  if (!isDirectory(directory)) {
    throw new AgentqError("not-a-repository", `${start} is not a directory.`, {
      hint: "Name the directory that the clone is in.",
      details: { path: start },
    });
  }
  const stop = ceilings(env);
  for (let at = directory;;) {
    const dotGit = join(at, ".git");
    const stat = statOf(dotGit);
    if (stat?.isFile()) {
      const { gitDir, commonDir } = behindGitFile(dotGit, env);
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

/** The places where git looks for the repository that a path names, in its order. */
const SUFFIXES = ["/.git", "", ".git/.git", ".git"];

export interface Entered {
  /** null: there is no repository. */
  readonly found: Discovered | null;
  /** The places that were looked at, the last of which is it. */
  readonly looked: readonly string[];
}

/**
 * The repository that a url names on this machine, as git's upload-pack and receive-pack enter it: nothing above
 * the path counts, and the first file that is there is taken for a work tree's `.git`.
 * @throws `not-a-repository` for a file that is none, or that points nowhere
 */
export function enterRepository(path: string): Entered {
  const looked: string[] = [];
  for (const suffix of SUFFIXES) {
    const at = resolve(path) + suffix;
    looked.push(at);
    const stat = statOf(at);
    if (stat?.isFile()) {
      const { gitDir: pointed, commonDir: common } = behindGitFile(at, {});
      const gitDir = realpathSync(pointed);
      const commonDir = common === pointed ? gitDir : common;
      const dotGitParent = parentOfGitDir(gitDir, commonDir) ??
        (basename(at) === ".git" ? dirname(realpathSync(at)) : null);
      return { found: { gitDir, commonDir, dotGitParent }, looked };
    }
    if (!stat?.isDirectory()) continue;
    const gitDir = realpathSync(at);
    const commonDir = gitDirectory(gitDir, {});
    if (commonDir === null) continue;
    return {
      found: { gitDir, commonDir, dotGitParent: parentOfGitDir(gitDir, commonDir) },
      looked,
    };
  }
  return { found: null, looked };
}

/** The worktree of a git directory that was entered directly: `x/.git`, or a linked one's `gitdir` file. */
function parentOfGitDir(gitDir: string, commonDir: string): string | null {
  if (gitDir !== commonDir) {
    const pointer = text(join(gitDir, "gitdir"))?.trim();
    return pointer ? dirname(resolve(gitDir, pointer)) : null;
  }
  return basename(gitDir) === ".git" ? dirname(gitDir) : null;
}
