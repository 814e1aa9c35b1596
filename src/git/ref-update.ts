/**
 * Changing one ref of this clone: a worktree's HEAD, a tracking ref, a branch.
 *
 *   lock <ref>.lock → read the ref under the lock, compare → write and sync the value beside it
 *     → reflog → rename over the ref → sync the directory → unlock
 *
 * Deleting takes `packed-refs.lock` too and rewrites that file first, so that no old value shows through
 * in between. Several refs at once, with hooks, are the file transport's.
 */
import { Buffer } from "node:buffer";
import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  statSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import { AgentqError, isAgentqError } from "../errors.ts";
import type { GitConfig } from "./config.ts";
import {
  breakStaleLock,
  createLock,
  describeOwner,
  newLockText,
  readLock,
  releaseLock,
} from "./file/ref-lock.ts";
import { fsyncDirectory } from "./loose.ts";
import { makeBelow } from "../platform/make-below.ts";
import { ZERO_OID } from "./oid.ts";
import { withPackedRefs } from "./packed-refs.ts";
import { checkRefName, isPerWorktreeRef, isRefName } from "./ref-name.ts";
import { readRefUncached, type RefDirectories, refPath, resolveRef } from "./refs.ts";
import type { Oid } from "./types.ts";

export interface RefHome extends RefDirectories {
  readonly bare: boolean;
  readonly config: GitConfig;
}

export interface RefChange {
  /** A full name, or HEAD. */
  readonly ref: string;
  /** The new value; null deletes the ref. */
  readonly new: Oid | null;
  /** What it must hold now (null: it must not exist); not checked when left out. */
  readonly old?: Oid | null;
  /** Changes a symbolic ref itself instead of what it points to (detaching HEAD). */
  readonly noDeref?: boolean;
  /** The reflog's message, one line. */
  readonly message?: string;
  /** `Name <mail>` for the reflog, a byte string. */
  readonly identity?: string;
}

const DEFAULT_IDENTITY = "agentq <agentq@localhost>";
const LOCK_TIMEOUT_MS = 2_000;

/**
 * @throws `ref-moved` when the ref doesn't hold `old`, `ref-locked`, `ref-name-invalid` (also for a name
 *   that another ref's name stands in the way of), `io-error`
 */
export function updateRef(home: RefHome, change: RefChange): void {
  if (change.ref !== "HEAD") checkRefName(change.ref);
  const through = change.noDeref ? null : resolveRef(home, change.ref);
  const name = through?.name ?? change.ref;
  if (!through?.oid) checkAbove(home, name);
  withLock(`${refPath(home, name)}.lock`, name, baseOf(home, name), () => {
    const value = readRefUncached(home, name);
    const current = value?.oid ?? (change.noDeref ? resolveRef(home, name)?.oid : null) ?? null;
    if (change.old !== undefined && current !== change.old) {
      throw new AgentqError(
        "ref-moved",
        current === null
          ? `${name} is gone; it was at ${change.old}.`
          : change.old === null
          ? `${name} is there already, at ${current}.`
          : `${name} is at ${current}, not at ${change.old} as expected.`,
        { details: { ref: name, expected: change.old, actual: current } },
      );
    }
    if (change.new === null) return remove(home, name);
    if (value === null && name.startsWith("refs/")) checkBelow(home, name);
    const logged = change.ref === name ? [name] : [name, change.ref];
    if (name === readHeadTarget(home) && !logged.includes("HEAD")) logged.push("HEAD");
    put(home, name, `${change.new}\n`, () => {
      for (const log of logged) appendReflog(home, log, current, change);
    });
  });
}

/** Points HEAD (or another symbolic ref) to `target`, which need not exist. @throws as {@link updateRef} */
export function setSymbolicRef(home: RefHome, name: string, target: string): void {
  checkRefName(target);
  if (name !== "HEAD") checkRefName(name);
  withLock(
    `${refPath(home, name)}.lock`,
    name,
    baseOf(home, name),
    () => put(home, name, `ref: ${target}\n`, () => {}),
  );
}

function readHeadTarget(home: RefDirectories): string | null {
  try {
    return readRefUncached(home, "HEAD")?.target ?? null;
  } catch {
    return null;
  }
}

/** The directory below which those of a ref may be made, and which is there in every repository. */
const baseOf = (home: RefDirectories, name: string) =>
  name.startsWith("refs/") && !isPerWorktreeRef(name)
    ? `${home.commonDir}/refs`
    : isPerWorktreeRef(name)
    ? home.gitDir
    : home.commonDir;

function withLock(path: string, name: string, base: string, work: () => void): void {
  const { text } = newLockText();
  const deadline = performance.now() + LOCK_TIMEOUT_MS;
  for (let wait = 1; createLock(path, text, { base }) === "exists"; wait = Math.min(wait * 2, 50)) {
    if (breakStaleLock(path)) continue;
    if (performance.now() >= deadline) {
      throw new AgentqError(
        "ref-locked",
        `${name} is locked: ${describeOwner(readLock(path))} (${path}).`,
        {
          hint: "When nothing uses that repository any more, remove the lock file and try again.",
          details: { ref: name, lock: path },
        },
      );
    }
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, wait + Math.random() * wait);
  }
  try {
    work();
  } catch (cause) {
    if (cause instanceof AgentqError) throw cause;
    const code = (cause as { code?: string }).code;
    throw new AgentqError(
      "io-error",
      `Cannot change ${name} in ${dirname(path)} (${code ?? cause}).`,
      {
        cause,
        details: { ref: name, errno: code },
      },
    );
  } finally {
    releaseLock(path);
  }
}

const nameConflict = (name: string, other: string) =>
  new AgentqError("ref-name-invalid", `${name} cannot exist beside ${other}.`, {
    hint: "Rename or delete one of them.",
    details: { ref: name, conflict: other },
  });

/** Refuses a name that begins with another ref's: its lock could not even be created. */
function checkAbove(home: RefDirectories, name: string): void {
  const parts = name.split("/");
  for (let length = 2; length < parts.length; length++) {
    const above = parts.slice(0, length).join("/");
    if (isRefName(above) && readRefUncached(home, above) !== null) throw nameConflict(name, above);
  }
}

/** Refuses a name that other refs' names begin with. */
function checkBelow(home: RefDirectories, name: string): void {
  const below = withPackedRefs(home.commonDir, (refs) => refs.list(`${name}/`)[0]);
  if (below) throw nameConflict(name, below.name);
  if (!removeEmpty(refPath(home, name))) throw nameConflict(name, `${name}/…`);
}

/** Removes a tree of empty directories; false when there is something in it. */
function removeEmpty(path: string): boolean {
  if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) return true;
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    if (!entry.isDirectory() || !removeEmpty(`${path}/${entry.name}`)) return false;
  }
  rmdirSync(path);
  return true;
}

function writeSynced(path: string, content: string, flags: string): void {
  const fd = openSync(path, flags, 0o666);
  try {
    const data = Buffer.from(content, "latin1");
    for (let done = 0; done < data.length;) done += writeSync(fd, data, done);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Replaces the ref's file, `before` having run when the new value is safe on disk beside it. */
function put(home: RefDirectories, name: string, content: string, before: () => void): void {
  const path = refPath(home, name);
  const directory = dirname(path);
  const created = makeBelow(baseOf(home, name), directory)[0];
  // Under the lock nobody else writes this name; what a crash left there is overwritten.
  const value = `${directory}/.${path.slice(directory.length + 1)}.agentq.lock`;
  try {
    writeSynced(value, content, "w");
    before();
    renameSync(value, path);
  } catch (error) {
    if (existsSync(value)) unlinkSync(value);
    throw error;
  }
  for (let at = directory;; at = dirname(at)) {
    fsyncDirectory(at);
    if (created === undefined || at === dirname(created) || at === dirname(at)) break;
  }
}

function remove(home: RefDirectories, name: string): void {
  if (!isPerWorktreeRef(name)) {
    const packed = `${home.commonDir}/packed-refs`;
    withLock(`${packed}.lock`, "packed-refs", home.commonDir, () => {
      if (!withPackedRefs(home.commonDir, (refs) => refs.get(name))) return;
      // The other lines stay as they are: the header says what may be relied upon in them.
      const escaped = Buffer.from(name, "utf8").toString("latin1").replace(/[.+$()|{}]/g, "\\$&");
      const line = new RegExp(`^[0-9a-f]{40} ${escaped}\n(?:\\^[0-9a-f]{40}\n)?`, "m");
      const text = readFileSync(packed, "latin1").replace(line, "");
      writeSynced(`${packed}.new`, text, "w");
      renameSync(`${packed}.new`, packed);
      fsyncDirectory(home.commonDir);
    });
  }
  const path = refPath(home, name);
  try {
    unlinkSync(path);
    fsyncDirectory(dirname(path));
  } catch (cause) {
    if (!["ENOENT", "ENOTDIR"].includes((cause as { code?: string }).code ?? "")) throw cause;
  }
  const log = logPath(home, name);
  if (existsSync(log)) unlinkSync(log);
}

const logPath = (home: RefDirectories, name: string) =>
  `${isPerWorktreeRef(name) ? home.gitDir : home.commonDir}/logs/${name}`;

/** Whether git would begin a reflog for this ref. */
function wantsReflog(home: RefHome, name: string): boolean {
  const setting = home.config.get("core.logAllRefUpdates");
  if (setting?.toLowerCase() === "always") return true;
  const on = setting === null ? !home.bare : home.config.getBoolean("core.logAllRefUpdates");
  return Boolean(on) && (name === "HEAD" || /^refs\/(heads|remotes|notes)\//.test(name));
}

function appendReflog(home: RefHome, name: string, old: Oid | null, change: RefChange): void {
  const path = logPath(home, name);
  if (!existsSync(path)) {
    if (!wantsReflog(home, name)) return;
    try {
      removeEmpty(path);
      makeBelow(isPerWorktreeRef(name) ? home.gitDir : home.commonDir, dirname(path));
    } catch (error) {
      // A log where a directory is needed, of a branch deleted long ago: not worth failing for.
      if (isAgentqError(error)) throw error;
      return;
    }
  }
  const now = new Date();
  const offset = -now.getTimezoneOffset();
  const two = (value: number) => String(value).padStart(2, "0");
  const zone = (offset < 0 ? "-" : "+") + two(Math.floor(Math.abs(offset) / 60)) +
    two(Math.abs(offset) % 60);
  const message = (change.message ?? "").replace(/\s+/g, " ").trim();
  const line = `${old ?? ZERO_OID} ${change.new} ${change.identity ?? DEFAULT_IDENTITY} ` +
    `${Math.floor(now.getTime() / 1000)} ${zone}\t${
      Buffer.from(message, "utf8").toString("latin1")
    }\n`;
  const fd = openSync(path, "a", 0o666);
  try {
    writeSync(fd, Buffer.from(line, "latin1"));
  } finally {
    closeSync(fd);
  }
}
