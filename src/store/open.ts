/** Opening: both files valid, of one store, in an admitted directory. Nothing is ever repaired here. */
import { AgentqError, isAgentqError } from "../errors.ts";
import { absolutePath } from "../platform/directory.ts";
import { throwIfAborted } from "../platform/clock.ts";
import { startWaiting, type Waiting } from "../platform/waiting.ts";
import { admitDirectory, admitFile, admitRoot, lstatOrNull, wrongKind } from "./admit.ts";
import { allAnnouncements, announcerLiveness, listDirectory } from "./announcements.ts";
import { holderLiveness, observeLock } from "./observed-lock.ts";
import { orDamaged } from "./damage.ts";
import { type StorePaths, storePaths } from "./layout.ts";
import type { LockWait } from "./lock.ts";
import { DEFAULT_LIMITS, storePlatform, storeWait } from "./platform.ts";
import { parseFormat, type StoreFormat } from "./state-file.ts";
import { admit, decode } from "./admission.ts";
import type { StoreContext } from "./transaction.ts";
import type { StoreOptions, StorePlatform } from "./types.ts";
import { withWayOn } from "./remains.ts";
import { shellWord } from "./shell-word.ts";
import { refuseInsideStore } from "./v2-marks.ts";
import { findV1Mark, v1Directory } from "./v1-marks.ts";

const MAX_FORMAT_BYTES = 4096;

/**
 * The working context of the store in `root`. Errors: `store-missing`, `v1-directory`,
 * `init-incomplete`, `store-invalid`, `version-unsupported`, `store-id-mismatch`,
 * `mode-unsupported`, `identity-changed`.
 */
export async function openContext(root: string, options: StoreOptions): Promise<StoreContext> {
  const paths = storePaths(absolutePath(root));
  const platform = storePlatform(options);
  const wait = storeWait(paths.root, options);
  const opening = { ...wait, signal: options.openingSignal ?? wait.signal };
  const { format, trusted } = await readIdentity(platform, paths, opening);
  return { ...makeContext(paths, platform, wait, options, format), trusted };
}

/** What an opened store was found to be. */
export interface StoreIdentity {
  readonly format: StoreFormat;
  /** The state, admitted and made to last. */
  readonly trusted: StoreContext["trusted"];
}

function makeContext(
  paths: StorePaths,
  platform: StorePlatform,
  wait: LockWait,
  options: StoreOptions,
  format: StoreFormat,
): StoreContext {
  return {
    paths,
    platform,
    wait,
    limits: { ...DEFAULT_LIMITS, ...options.limits },
    policy: { strictModes: !format.openModes },
    storeId: format.storeId,
    trusted: null,
    formatFile: null,
  };
}

/** How often and how long to look again while somebody may be just initialising. */
const GRACE_TRIES = 5;
const GRACE_MS = 10;
/** Between its first steps somebody may have to wait for a processor. */
const BEGINNING_TRIES = 50;

/**
 * Reads which store this is. While its initialisation is visibly under way (its lock, or a process that
 * is about to take it, is there and alive) this waits for it, at most as long as for any lock.
 */
export async function readIdentity(
  platform: StorePlatform,
  paths: StorePaths,
  wait: LockWait,
): Promise<StoreIdentity> {
  const waiting = startWaiting();
  try {
    return await waitForIdentity(platform, paths, wait, waiting);
  } finally {
    waiting.over();
  }
}

async function waitForIdentity(
  platform: StorePlatform,
  paths: StorePaths,
  wait: LockWait,
  waiting: Waiting,
): Promise<StoreIdentity> {
  const started = performance.now();
  let ended = false;
  for (let tries = 1;; tries++) {
    try {
      return readValidFiles(platform, paths, wait);
    } catch (cause) {
      const error = orDamaged(platform, paths, cause);
      const renamed = isAgentqError(error, "identity-changed") && tries <= GRACE_TRIES;
      if (!isAgentqError(error, "init-incomplete") && !renamed) throw error;
      const held = isHeld(platform, paths);
      if (performance.now() - started >= wait.timeoutMs) {
        throw held ? beingMade(paths) : withWayOn(platform, paths, error);
      }
      const underWay = held || (tries <= BEGINNING_TRIES && isBeginning(platform, paths));
      if (tries > GRACE_TRIES && !underWay) {
        // It may have ended, well, since the files were looked at.
        if (ended) throw withWayOn(platform, paths, error);
        ended = true;
        continue;
      }
    }
    throwIfAborted(wait.signal);
    waiting.still(() => `waiting for the store in ${paths.root}, which another initialises`);
    await platform.sleep(GRACE_MS);
  }
}

function isHeld(platform: StorePlatform, paths: StorePaths): boolean {
  const lock = observeLock(platform, paths.lock);
  return lock !== null && holderLiveness(platform, lock) === "alive";
}

/** Nothing is there yet, or the announcement of a live process: it is about to take the lock. */
function isBeginning(platform: StorePlatform, { namespace }: StorePaths): boolean {
  if (lstatOrNull(platform.files, namespace)?.kind !== "directory") return false;
  return listDirectory(platform, namespace).length === 0 ||
    allAnnouncements(platform, namespace).some((one) =>
      announcerLiveness(platform, one) === "alive"
    );
}

function beingMade({ root }: StorePaths): AgentqError {
  return new AgentqError("store-locked", `${root} is still being initialised by another`, {
    hint: "Wait and try again.",
    details: { path: root },
  });
}

function readValidFiles(
  platform: StorePlatform,
  paths: StorePaths,
  wait: LockWait,
): StoreIdentity {
  const { files } = platform;
  if (lstatOrNull(files, paths.namespace) === null) throw missing(platform, paths);
  const modesUnknown = { strictModes: false };
  admitRoot(files, paths.root, modesUnknown);
  admitDirectory(files, paths.namespace, modesUnknown);
  for (const path of [paths.format, paths.state]) {
    if (lstatOrNull(files, path) === null) {
      throw new AgentqError("init-incomplete", `${path} is missing`, { details: { path } });
    }
  }
  const file = admitFile(files, paths.format, modesUnknown, MAX_FORMAT_BYTES);
  const format = parseFormat(decode(file.bytes), paths.format);
  // Everything once as every transaction will do it, with the modes that the store asks for.
  const { stateFile, bytes, state } = admit(makeContext(paths, platform, wait, {}, format));
  return { format, trusted: { stateFile, bytes, state } };
}

/** Why there is no store: nothing is there, what is there is of v1, or part of a store (thrown). */
export function missing(platform: StorePlatform, paths: StorePaths): AgentqError {
  refuseInsideStore(paths.root);
  const root = lstatOrNull(platform.files, paths.root);
  if (root !== null && root.kind !== "directory") {
    throw wrongKind(paths.root, root.kind, "directory", "root");
  }
  if (root !== null) {
    const mark = findV1Mark(platform.files, paths.root);
    if (mark !== null) return v1Directory(paths.root, mark);
  }
  return new AgentqError("store-missing", `there is no v2 store in ${paths.root}`, {
    hint: `Create it with: agentq store init --store ${shellWord(paths.root)}`,
    details: { path: paths.root },
  });
}
