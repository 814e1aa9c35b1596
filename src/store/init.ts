/**
 * Creating a store, exclusively.
 *
 *   root (made when missing) → namespace (mkdir: ours or nobody's) → lock → objects/ → sync namespace
 *   → state.json → format.json → sync namespace → sync root → unlock
 *
 * The first sync makes sure that wherever both files are, `objects/` is too.
 *
 * A namespace without both files valid is `init-incomplete`: never adopted, completed or deleted. The
 * explicit way out moves what is there aside, file by file, where a person can look at it.
 */
import { dirname, join } from "node:path";
import { AgentqError, isAgentqError } from "../errors.ts";
import { absolutePath, madeThroughNothing } from "../platform/directory.ts";
import { errnoOf, ioError, syncError } from "../platform/durable.ts";
import { assertUsableUmask } from "../platform/umask.ts";
import { admitRoot, lstatOrNull, wrongKind } from "./admit.ts";
import { type ExclusiveFile, releaseLeftovers, releaseOrKeep, tryExclusive } from "./exclusive.ts";
import { DIRECTORY_MODE, FILE_MODE, NAMESPACE, type StorePaths, storePaths } from "./layout.ts";
import { readIdentity } from "./open.ts";
import { storePlatform, storeWait } from "./platform.ts";
import { moveAside, withRemains } from "./remains.ts";
import { emptyState } from "./state.ts";
import { encodeState, serializeFormat } from "./state-file.ts";
import type { StoreSite } from "./sites.ts";
import type { StoreOptions, StorePlatform } from "./types.ts";
import { findV1Mark, v1Directory } from "./v1-marks.ts";
import { refuseInsideStore } from "./v2-marks.ts";

export interface InitOptions extends StoreOptions {
  /** For file systems that can't keep permissions; recorded in the store. */
  allowOpenModes?: boolean;
  /** Move the remains of an interrupted initialisation aside and start anew. */
  resumeAfterInspection?: boolean;
}

export interface InitReport {
  readonly root: string;
  readonly storeId: string;
  /** Where the remains of an earlier attempt went, or null. */
  readonly movedAside: string | null;
}

/**
 * Creates a store in `root`. Errors: `store-exists`, `init-incomplete`, `v1-directory`, `v2-directory`,
 * `mode-unsupported`, `store-locked` (somebody else has been creating it for too long).
 */
export async function initStore(root: string, options: InitOptions = {}): Promise<InitReport> {
  const paths = storePaths(absolutePath(root));
  refuseInsideStore(paths.root);
  const platform = storePlatform(options);
  releaseLeftovers(platform);
  const openModes = options.allowOpenModes === true;
  if (platform.files.hasModes) assertUsableUmask(paths.root);
  const fresh = ensureRoot(platform, paths.root);
  let movedAside: string | null = null;
  if (!fresh) {
    if (lstatOrNull(platform.files, paths.namespace) !== null) {
      await refuseExisting(platform, paths, options);
      movedAside = moveAside(platform, paths);
    } else {
      const mark = findV1Mark(platform.files, paths.root);
      if (mark !== null) throw v1Directory(paths.root, mark);
    }
    if (!openModes) narrowRoot(platform, paths.root);
    syncFoundRoot(platform, paths.root);
  }
  admitRoot(platform.files, paths.root, { strictModes: !openModes });
  if (!openModes && platform.files.hasModes) probeModes(platform, paths.root);
  const storeId = platform.token();
  if (!makeNamespace(platform, paths)) {
    // Another was faster: it is waited for like any holder of the lock, and there is then what it has made.
    await refuseExisting(platform, paths, { ...options, resumeAfterInspection: false });
    return { root: paths.root, storeId, movedAside };
  }
  try {
    const lock = tryExclusive(platform, paths.lock);
    if (lock === null) {
      await refuseExisting(platform, paths, { ...options, resumeAfterInspection: false });
    } else fillNamespace(platform, paths, lock, storeId, openModes);
  } catch (error) {
    throw withRemains(platform, paths, error, movedAside);
  }
  return { root: paths.root, storeId, movedAside };
}

/** Returns only when there are remains that may be moved aside. */
async function refuseExisting(
  platform: StorePlatform,
  paths: StorePaths,
  options: InitOptions,
): Promise<void> {
  try {
    const { format } = await readIdentity(platform, paths, storeWait(paths.root, options));
    const { storeId } = format;
    throw new AgentqError("store-exists", `${paths.root} holds the store ${storeId} already`, {
      details: { path: paths.root, storeId },
    });
  } catch (error) {
    if (!isAgentqError(error, "init-incomplete")) throw error;
    if (options.resumeAfterInspection !== true) throw error;
  }
}

/** Makes the root and what is missing above it; true when it was made here. */
function ensureRoot(platform: StorePlatform, root: string): boolean {
  const { files } = platform;
  const stat = lstatOrNull(files, root);
  if (stat !== null) {
    if (stat.kind === "directory") return false;
    throw wrongKind(root, stat.kind, "directory", "root");
  }
  const parent = dirname(root);
  if (parent !== root && lstatOrNull(files, parent) === null) ensureRoot(platform, parent);
  try {
    files.mkdir("init.mkdir-root", root, DIRECTORY_MODE);
  } catch (error) {
    // Somebody else made it just now: look at it like at any other.
    if (errnoOf(error) === "EEXIST") return ensureRoot(platform, root);
    throw madeThroughNothing(root, error) ?? ioError("make", root, error);
  }
  syncParent(platform, root);
  return true;
}

/** The root's entry lasts. A parent that is a link is followed, as making the root followed it. */
function syncParent(platform: StorePlatform, root: string): void {
  const parent = dirname(root);
  const isLink = lstatOrNull(platform.files, parent)?.kind === "symlink";
  syncDirectoryAt(platform, "init.sync-root-parent", isLink ? `${parent}/.` : parent);
}

/** The same for a root that was there: whoever made it may have been stopped before it was sure to last. */
function syncFoundRoot(platform: StorePlatform, root: string): void {
  try {
    syncParent(platform, root);
  } catch (error) {
    // Given to us in a directory that isn't ours to read: its owner's to make last.
    const { code } = ((error as AgentqError).cause ?? {}) as { code?: string };
    if (code !== "EACCES" && code !== "EPERM") throw error;
  }
}

/** An empty directory that was given to us becomes private; one in use is not changed behind its users. */
function narrowRoot(platform: StorePlatform, root: string): void {
  const { files } = platform;
  if (!files.hasModes || files.lstat(root)?.mode === DIRECTORY_MODE) return;
  // Another that initialises it at the same time is no user of it.
  const passing = (name: string) => name.startsWith(PROBE) || name === NAMESPACE;
  if (!files.readdir(root).every(passing)) return;
  try {
    files.chmod("init.chmod-root", root, DIRECTORY_MODE);
  } catch (error) {
    throw ioError("chmod", root, error);
  }
}

const PROBE = ".agentq-probe-";

/** Whether this file system keeps permission bits, asked before anything is made. */
function probeModes(platform: StorePlatform, root: string): void {
  const { files } = platform;
  const probe = join(root, `${PROBE}${platform.token()}`);
  let mode: number;
  try {
    files.mkdir("init.probe-mkdir", probe, DIRECTORY_MODE);
    mode = files.lstat(probe)?.mode ?? 0;
    files.rmdir("init.probe-rmdir", probe);
  } catch (error) {
    throw ioError("make", probe, error);
  }
  if (mode === DIRECTORY_MODE) return;
  throw new AgentqError(
    "mode-unsupported",
    `the file system of ${root} can't keep permissions (0700 became ${mode.toString(8)})`,
    { details: { path: root } },
  );
}

/** The namespace, ours alone; false when somebody else has made it. */
function makeNamespace(platform: StorePlatform, paths: StorePaths): boolean {
  try {
    platform.files.mkdir("init.mkdir-namespace", paths.namespace, DIRECTORY_MODE);
    return true;
  } catch (error) {
    if (errnoOf(error) === "EEXIST") return false;
    throw ioError("make", paths.namespace, error);
  }
}

function fillNamespace(
  platform: StorePlatform,
  paths: StorePaths,
  lock: ExclusiveFile,
  storeId: string,
  openModes: boolean,
): void {
  const { files } = platform;
  try {
    try {
      files.mkdir("init.mkdir-objects", paths.objects, DIRECTORY_MODE);
    } catch (error) {
      throw ioError("make", paths.objects, error);
    }
    syncDirectoryAt(platform, "init.sync-objects", paths.objects);
    syncDirectoryAt(platform, "init.sync-namespace", paths.namespace);
    createFile(platform, paths.state, encodeState(emptyState(storeId)), {
      create: "init.create-state",
      write: "init.write-state",
      sync: "init.sync-state",
    });
    const format = new TextEncoder().encode(serializeFormat({ storeId, openModes }));
    createFile(platform, paths.format, format, {
      create: "init.create-format",
      write: "init.write-format",
      sync: "init.sync-format",
    });
    syncDirectoryAt(platform, "init.sync-namespace", paths.namespace);
    syncDirectoryAt(platform, "init.sync-root", paths.root);
  } finally {
    releaseOrKeep(platform, lock);
  }
}

function createFile(
  platform: StorePlatform,
  path: string,
  content: Uint8Array | readonly Uint8Array[],
  sites: { create: StoreSite; write: StoreSite; sync: StoreSite },
): void {
  const { files } = platform;
  try {
    const fd = files.create(sites.create, path, FILE_MODE);
    try {
      files.write(sites.write, fd, content);
      files.sync(sites.sync, fd);
    } finally {
      files.close(fd);
    }
  } catch (error) {
    throw ioError("write", path, error);
  }
}

function syncDirectoryAt(platform: StorePlatform, site: StoreSite, path: string): void {
  try {
    platform.files.syncDirectory(site, path);
  } catch (error) {
    throw syncError(path, error);
  }
}
