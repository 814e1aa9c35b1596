/** A repository on this machine: where its parts are, and readers for them, opened when first used. */
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { AgentqError } from "../errors.ts";
import { type GitConfig, openConfig } from "./config.ts";
import { readConfigFile } from "./config-sources.ts";
import { sharedRepositoryMode } from "./shared-repository.ts";
import { type ConfigEntry, parseBoolean, parseConfig, parseInteger } from "./config-file.ts";
import { type Discovered, discoverRepository } from "./discovery.ts";
import { type ObjectStore, openObjectStore } from "./odb.ts";
import { openRefStore, type RefStore, resolveRef } from "./refs.ts";
import type { Oid } from "./types.ts";

export interface Head {
  /** The branch HEAD names (`refs/heads/main`); null when HEAD is detached. */
  readonly branch: string | null;
  /** null on an unborn branch. */
  readonly oid: Oid | null;
}

export interface Repository {
  /** This worktree's own git directory (HEAD, index, MERGE_HEAD). */
  readonly gitDir: string;
  /** Shared by all worktrees (objects, refs, config). */
  readonly commonDir: string;
  /** null for a bare repository. */
  readonly workTree: string | null;
  readonly bare: boolean;
  readonly config: GitConfig;
  readonly objects: ObjectStore;
  readonly refs: RefStore;
  head(): Head;
  /** Commits whose parents are not here on purpose (a shallow clone's boundary), read anew each time. */
  readonly shallow: ReadonlySet<Oid>;
  /** Closes descriptors; the repository stays usable. */
  close(): void;
}

export interface OpenOptions {
  /**
   * The environment whose GIT_DIR, GIT_WORK_TREE… decide. None by default: pass `process.env` only
   * where the person named no repository.
   */
  env?: Readonly<Record<string, string | undefined>>;
  /** Where it was found already (`enterRepository`): nothing is looked for then. */
  found?: Discovered;
}

/** Extensions that change nothing about how a repository is read. */
const HARMLESS = new Set([
  "noop",
  "noop-v1",
  "preciousobjects",
  "partialclone",
  "worktreeconfig",
  "relativeworktrees",
]);

interface Format {
  readonly bare: boolean | null;
  readonly workTree: string | null;
  readonly worktreeConfig: boolean;
  readonly promisor: string | null;
}

function unsupported(commonDir: string, what: string): AgentqError {
  return new AgentqError("repository-unsupported", `${commonDir} ${what}.`, {
    details: { path: commonDir },
  });
}

/** What the repository's own config says about its format. @throws `repository-unsupported` */
function readFormat(commonDir: string, entries: readonly ConfigEntry[]): Format {
  const last = (key: string) => entries.findLast((entry) => entry.key === key);
  const version = parseInteger(last("core.repositoryformatversion")?.value ?? "0");
  if (version !== 0 && version !== 1) {
    throw unsupported(
      commonDir,
      `has repository format ${last("core.repositoryformatversion")?.value}`,
    );
  }
  for (const { key, value } of entries) {
    if (!key.startsWith("extensions.")) continue;
    const name = key.slice("extensions.".length);
    if (HARMLESS.has(name)) continue;
    const set = `extensions.${name}=${value ?? "true"}`;
    if (name === "objectformat" ? value === "sha1" : name === "refstorage" && value === "files") {
      continue;
    }
    // Format 0 predates extensions: git ignores those it does not know there.
    if (version === 1 || ["objectformat", "refstorage", "compatobjectformat"].includes(name)) {
      throw unsupported(commonDir, `uses ${set}`);
    }
  }
  return {
    bare: last("core.bare") ? parseBoolean(last("core.bare")!.value) ?? null : null,
    workTree: last("core.worktree")?.value ?? null,
    worktreeConfig: parseBoolean(last("extensions.worktreeconfig")?.value ?? "false") ?? false,
    promisor: last("extensions.partialclone")?.value ?? null,
  };
}

/**
 * Opens the repository that `start` lies in.
 * @throws `not-a-repository`, `repository-unsupported`, `config-invalid`
 */
export function openRepository(start: string, options: OpenOptions = {}): Repository {
  const env = options.env ?? {};
  const found = options.found ?? discoverRepository(start, env);
  const { gitDir, commonDir } = found;
  const configPath = join(commonDir, "config");
  const local = parseConfig(readConfigFile(configPath) ?? "", configPath);
  const format = readFormat(commonDir, local);
  let { bare, workTree: configured } = format;
  if (format.worktreeConfig) {
    const path = join(gitDir, "config.worktree");
    for (const { key, value } of parseConfig(readConfigFile(path) ?? "", path)) {
      if (key === "core.bare") bare = parseBoolean(value) ?? bare;
      if (key === "core.worktree") configured = value;
    }
  }
  // A linked worktree has a work tree whatever the repository it belongs to says of itself.
  const linked = gitDir !== commonDir;
  const workTree = found.workTree ??
    (linked
      ? found.dotGitParent
      : bare === true
      ? null
      : configured !== null
      ? resolve(gitDir, configured)
      : found.dotGitParent);

  let config: GitConfig | undefined;
  let objects: ObjectStore | undefined;
  const refs = openRefStore({ gitDir, commonDir });
  const repository: Repository = {
    gitDir,
    commonDir,
    workTree,
    bare: workTree === null,
    get config() {
      return config ??= openConfig({
        repository: {
          gitDir,
          commonDir,
          worktreeConfig: format.worktreeConfig,
          branch: () => refs.read("HEAD")?.target ?? null,
          local,
        },
        env: process.env,
      });
    },
    get objects() {
      return objects ??= openObjectStore(
        env.GIT_OBJECT_DIRECTORY ? resolve(env.GIT_OBJECT_DIRECTORY) : join(commonDir, "objects"),
        {
          sharedMode: () => sharedRepositoryMode(repository.config),
          promisor: () => format.promisor ?? promisorRemote(repository.config),
          shallow: () => readShallow(commonDir),
          ...(env.GIT_ALTERNATE_OBJECT_DIRECTORIES
            ? { alternates: env.GIT_ALTERNATE_OBJECT_DIRECTORIES }
            : {}),
        },
      );
    },
    refs,
    head: () => readHead(gitDir, commonDir),
    get shallow() {
      return readShallow(commonDir);
    },
    close: () => objects?.close(),
  };
  return repository;
}

/** The first remote that promised objects: a clone with a filter sets this, not always the extension. */
function promisorRemote(config: GitConfig): string | null {
  const promises = (remote: string) => config.getBoolean(`remote.${remote}.promisor`) === true;
  return config.subsections("remote").find(promises) ?? null;
}

/**
 * Where a repository is, and its config, without a look at its format: all that can be had of one that is
 * `repository-unsupported`.
 * @throws `not-a-repository`, `config-invalid`
 */
export function openConfigOnly(
  start: string,
  options: OpenOptions = {},
): Pick<Repository, "gitDir" | "commonDir" | "workTree" | "config"> {
  const { gitDir, commonDir, workTree, dotGitParent } = discoverRepository(
    start,
    options.env ?? {},
  );
  const config = openConfig({
    repository: { gitDir, commonDir, worktreeConfig: false, branch: () => null },
    env: process.env,
  });
  return { gitDir, commonDir, workTree: workTree ?? dotGitParent, config };
}

/** HEAD of the worktree that has this git directory. @throws `repository-corrupt` */
export function readHead(gitDir: string, commonDir: string): Head {
  const resolved = resolveRef({ gitDir, commonDir }, "HEAD");
  if (!resolved) {
    throw new AgentqError("repository-corrupt", `${gitDir} has no HEAD.`, {
      details: { path: gitDir },
    });
  }
  return { branch: resolved.name === "HEAD" ? null : resolved.name, oid: resolved.oid };
}

/** The boundary commits of a shallow clone. @throws `repository-corrupt` */
export function readShallow(commonDir: string): ReadonlySet<Oid> {
  let text: string;
  try {
    text = readFileSync(join(commonDir, "shallow"), "latin1");
  } catch {
    return new Set();
  }
  const oids = text.split("\n").filter((line) => line !== "");
  if (!oids.every((line) => /^[0-9a-f]{40}$/.test(line))) {
    throw new AgentqError("repository-corrupt", `${commonDir}/shallow is malformed.`, {
      details: { path: commonDir },
    });
  }
  return new Set(oids);
}

/** True for a repository at `path` that can be read and has the commit; nothing is thrown for one that isn't. */
export function holdsCommit(path: string, commit: Oid): boolean {
  let repository: Repository | null = null;
  try {
    repository = openRepository(path);
    return repository.objects.has(commit);
  } catch {
    return false;
  } finally {
    repository?.close();
  }
}
