/**
 * Moving N refs of a repository on this file system, all or nothing, beside real git.
 *
 *   lock every ref, sorted by name ─▶ read the values under the locks ─▶ differs: `lost`, unlock
 *        │ equal
 *        ▼
 *   write and fsync each new value beside its ref ─▶ reflogs ─▶ rename over the refs, in the order the
 *   caller gave ─▶ fsync the directories ─▶ unlock
 *
 * Renames come one after the other, so a crash between two leaves a half state. The caller orders the
 * updates so that each prefix is one it recognises: for a landing that is lock, branch, done. The lock
 * renewed alone changes nothing; the branch without its result is a landing that the next lander
 * records; a result never says "landed" before the branch holds it.
 * A killed process leaves at most its locks, one hidden value file a ref and its sign of life; `ref-lock.ts`
 * proves the locks' owner dead, the next transaction on the ref overwrites the value, and `orphans.ts` removes
 * the sign.
 */
import {
  closeSync,
  existsSync,
  fchmodSync,
  fstatSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  unlinkSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { AgentqError } from "../../errors.ts";
import { systemClock } from "../../platform/clock.ts";
import type { Life } from "../../platform/life.ts";
import { fsyncDirectory } from "../loose.ts";
import { ZERO_OID } from "../oid.ts";
import { withPackedRefs } from "../packed-refs.ts";
import { writeAll } from "../pack-store.ts";
import { isRefName } from "../ref-name.ts";
import { readRefUncached } from "../refs.ts";
import type { Oid, RefUpdate } from "../types.ts";
import { makeSharedDirectory, sharedBits } from "./shared-directory.ts";
import {
  adviseOnLock,
  breakStaleLock,
  createLock,
  describeOwner,
  newLockText,
  readLock,
  releaseLock,
} from "./ref-lock.ts";

export interface RefHost {
  readonly commonDir: string;
  /** A path to its `refs` that leads there though they were replaced; the usual one unless given. */
  readonly refsDirectory?: string;
  /** What `core.sharedRepository` adds to permission bits (0 for none). */
  readonly sharedMode: number;
  /** Whether a ref without a reflog gets one. */
  readonly logs: (ref: string) => boolean;
  /** `Name <mail>` for reflogs. */
  readonly identity: () => string;
}

/** The refs are locked and hold their old values. Exactly one of the last two must be called, once. */
export interface PreparedRefs {
  readonly status: "prepared";
  /**
   * Writes the new values beside the refs, without a sync, and gives the descriptors of what must last
   * before `commit` is called. Without this call `commit` does both.
   */
  stage(): readonly number[];
  /**
   * Moves the refs.
   * @throws before the first ref has moved; afterwards returns how many have, and the cause
   */
  commit(): { moved: number; cause: unknown } | null;
  release(): void;
}

export type Preparation =
  | PreparedRefs
  | { readonly status: "lost"; readonly refs: readonly string[] }
  | { readonly status: "conflict"; readonly ref: string; readonly reason: string };

/** How long a lock held by someone else is waited for. */
const LOCK_TIMEOUT_MS = 10_000;
const MAX_SYMREFS = 5;

/** An origin's refs are the common ones: no worktree's own. */
const dirsOf = (commonDir: string) => ({ gitDir: commonDir, commonDir });

/** The names from `ref` along symbolic refs, the one that holds the value last; and that value. */
export function resolveRef(commonDir: string, ref: string): { chain: string[]; oid: Oid | null } {
  const chain = [ref];
  for (;;) {
    const value = readRefUncached(dirsOf(commonDir), chain.at(-1)!);
    if (value === null) return { chain, oid: null };
    if (value.oid !== undefined) return { chain, oid: value.oid };
    chain.push(value.target);
    if (chain.length > MAX_SYMREFS) {
      throw new AgentqError("repository-corrupt", `Ref ${ref} is a symbolic ref without end.`);
    }
  }
}

/** Updates whose ref doesn't hold the named old value right now, without any lock. */
export function movedRefs(commonDir: string, updates: readonly RefUpdate[]): string[] {
  return updates
    .filter(({ ref, old }) => resolveRef(commonDir, ref).oid !== old)
    .map(({ ref }) => ref);
}

/**
 * Locks the refs and checks their values. With `life`, a sign of life in the repository, the locks can be told
 * stale from other containers; it must not end before they are released.
 * @throws `ref-locked` when someone keeps a lock; `io-error`
 */
export async function prepareRefs(
  host: RefHost,
  updates: readonly RefUpdate[],
  options: { signal?: AbortSignal; lockTimeoutMs?: number; life?: Life | null } = {},
): Promise<Preparation> {
  const { commonDir } = host;
  const life = options.life ?? null;
  const graveyard = { lives: commonDir, life };
  const { refsDirectory = join(commonDir, "refs"), sharedMode } = host;
  const within = { base: refsDirectory, sharedMode };
  const { text } = newLockText(life);
  const deadline = performance.now() + (options.lockTimeoutMs ?? LOCK_TIMEOUT_MS);
  const held: string[] = [];
  const release = () => {
    for (const lock of held.splice(0).reverse()) releaseLock(lock);
  };
  try {
    for (;;) {
      const before = updates.map(({ ref }) => resolveRef(commonDir, ref));
      const chains = before.map(({ chain }) => chain);
      for (const { chain, oid } of before) {
        const above = oid === null ? refAbove(commonDir, chain.at(-1)!) : null;
        if (above) return { status: "conflict", ref: chain[0]!, reason: `${above} is a ref` };
      }
      const names = [...new Set(chains.flat())].sort();
      life?.note(names.map((name) => `${name}.lock`));
      for (const name of names) {
        const lock = `${fileOf(host, name)}.lock`;
        for (
          let wait = 1;
          createLock(lock, text, within) === "exists";
          wait = Math.min(wait * 2, 32)
        ) {
          if (breakStaleLock(lock, graveyard)) continue;
          const moved = movedRefs(commonDir, updates);
          if (moved.length > 0) {
            release();
            return { status: "lost", refs: moved };
          }
          if (performance.now() >= deadline) throw lockedError(name, lock, commonDir);
          await systemClock.sleep(1 + systemClock.random() * (wait + 1), options.signal);
        }
        held.push(lock);
      }
      const now = updates.map(({ ref }) => resolveRef(commonDir, ref));
      // A symbolic ref may have been pointed elsewhere before its lock was ours.
      if (now.some(({ chain }, i) => chain.join() !== chains[i]!.join())) {
        release();
        continue;
      }
      const lost = updates.filter(({ old }, i) => now[i]!.oid !== old).map(({ ref }) => ref);
      if (lost.length > 0) {
        release();
        return { status: "lost", refs: lost };
      }
      const targets = updates.map((update, i) => ({ ...update, ref: now[i]!.chain.at(-1)! }));
      for (const { ref, old } of targets) {
        const reason = old === null ? refBelow(commonDir, ref) : null;
        if (reason) {
          release();
          return { status: "conflict", ref, reason };
        }
      }
      return createPrepared(host, targets, release);
    }
  } catch (error) {
    release();
    throw error;
  }
}

function lockedError(ref: string, lock: string, lives: string): AgentqError {
  const owner = readLock(lock);
  const who = describeOwner(owner, lives);
  return new AgentqError("ref-locked", `${ref} is locked: ${who} (${lock}).`, {
    hint: adviseOnLock(owner, lock, lives),
    details: { ref, lock, ...(typeof owner === "object" ? { owner } : {}) },
  });
}

/** A ref that stands where `name` needs a directory. */
function refAbove(commonDir: string, name: string): string | null {
  const parts = name.split("/");
  for (let length = 2; length < parts.length; length++) {
    const above = parts.slice(0, length).join("/");
    if (statSync(join(commonDir, above), { throwIfNoEntry: false })?.isDirectory()) continue;
    if (isRefName(above) && readRefUncached(dirsOf(commonDir), above) !== null) return above;
  }
  return null;
}

/** Why `name` can't be created: refs below it. Empty directories in its place are removed. */
function refBelow(commonDir: string, name: string): string | null {
  const packed = withPackedRefs(commonDir, (refs) => refs.list(`${name}/`)[0]);
  if (packed) return `${packed.name} is a ref`;
  return removeEmpty(join(commonDir, name)) ? null : `there are refs below ${name}/`;
}

/** Removes a tree of empty directories. False when there is something in it. */
function removeEmpty(path: string): boolean {
  try {
    for (const entry of readdirSync(path, { withFileTypes: true })) {
      if (!entry.isDirectory() || !removeEmpty(join(path, entry.name))) return false;
    }
    rmdirSync(path);
    return true;
  } catch (cause) {
    return ["ENOENT", "ENOTDIR"].includes((cause as { code?: string }).code ?? "");
  }
}

/** The file of a ref, or a directory of refs. */
const fileOf = ({ commonDir, refsDirectory }: RefHost, name: string) =>
  refsDirectory !== undefined && /^refs(\/|$)/.test(name)
    ? refsDirectory + name.slice("refs".length)
    : join(commonDir, name);

const valuePath = (host: RefHost, ref: string) => {
  const path = fileOf(host, ref);
  const slash = path.lastIndexOf("/") + 1;
  return `${path.slice(0, slash)}.${path.slice(slash)}.agentq.lock`;
};

function createPrepared(
  host: RefHost,
  targets: readonly RefUpdate[],
  release: () => void,
): PreparedRefs {
  const { commonDir } = host;
  const values = targets.map(({ ref }) => valuePath(host, ref));
  const open: number[] = [];
  let staged = false;
  let moved = 0;
  const end = () => {
    for (const fd of open.splice(0)) closeSync(fd);
    for (const value of staged && moved < values.length ? values : []) {
      if (existsSync(value)) unlinkSync(value);
    }
    release();
  };
  const failed = (cause: unknown) => {
    if (cause instanceof AgentqError) return cause;
    const code = (cause as { code?: string }).code;
    return new AgentqError("io-error", `Cannot write refs in ${commonDir} (${code ?? cause}).`, {
      cause,
    });
  };
  const stage = () => {
    staged = true;
    targets.forEach(({ new: oid }, i) => {
      // Left by a process that was killed here, perhaps another user's: made anew, not reused.
      rmSync(values[i]!, { force: true });
      const fd = openSync(values[i]!, "wx", 0o666);
      open.push(fd);
      writeAll(fd, new TextEncoder().encode(`${oid}\n`));
      share(fd, host.sharedMode);
    });
    return [...open];
  };
  return {
    status: "prepared",
    stage() {
      try {
        return stage();
      } catch (cause) {
        throw failed(cause);
      }
    },
    release: end,
    commit() {
      try {
        if (!staged) { for (const fd of stage()) fsyncSync(fd); }
        const head = headTarget(commonDir);
        for (const target of targets) appendReflogs(host, target, target.ref === head);
        for (const [i, { ref }] of targets.entries()) {
          const path = fileOf(host, ref);
          try {
            renameSync(values[i]!, path);
          } catch (cause) {
            // Another git may have left an empty directory there since we looked.
            if (!removeEmpty(path)) throw cause;
            renameSync(values[i]!, path);
          }
          moved++;
        }
        syncDirectories(host, targets);
        return null;
      } catch (cause) {
        if (moved > 0) return { moved, cause };
        throw failed(cause);
      } finally {
        end();
      }
    },
  };
}

/**
 * Makes the renames last. A directory that this transaction may have created is an entry of its parent,
 * so for new refs the parents are synced up to `refs/`.
 */
function syncDirectories(host: RefHost, targets: readonly RefUpdate[]): void {
  const directories = new Set<string>();
  for (const { ref, old } of targets) {
    let directory = dirname(ref);
    directories.add(directory);
    while (old === null && directory !== "refs") {
      directory = dirname(directory);
      directories.add(directory);
    }
  }
  for (const directory of directories) fsyncDirectory(fileOf(host, directory));
}

function appendReflogs(host: RefHost, update: RefUpdate, isHead: boolean): void {
  for (const name of isHead ? [update.ref, "HEAD"] : [update.ref]) {
    const path = join(host.commonDir, "logs", name);
    if (!existsSync(path)) {
      if (!host.logs(name)) continue;
      removeEmpty(path);
      makeSharedDirectory(host.commonDir, dirname(path), host.sharedMode);
    }
    const now = new Date();
    const offset = -now.getTimezoneOffset();
    const zone = (offset < 0 ? "-" : "+") +
      String(Math.floor(Math.abs(offset) / 60)).padStart(2, "0") +
      String(Math.abs(offset) % 60).padStart(2, "0");
    const when = `${Math.floor(now.getTime() / 1000)} ${zone}`;
    const line = `${update.old ?? ZERO_OID} ${update.new} ${host.identity()} ${when}\tpush\n`;
    const fd = openSync(path, "a", 0o666);
    try {
      writeAll(fd, new TextEncoder().encode(line));
      share(fd, host.sharedMode);
    } finally {
      closeSync(fd);
    }
  }
}

function share(fd: number, sharedMode: number): void {
  if (sharedMode) fchmodSync(fd, sharedBits(fstatSync(fd).mode & 0o7777, sharedMode));
}

function headTarget(commonDir: string): string | null {
  try {
    return /^ref:\s*(\S+)/.exec(readFileSync(join(commonDir, "HEAD"), "latin1"))?.[1] ?? null;
  } catch {
    return null;
  }
}
