/**
 * Files that are locked as flock(2) locks them: the kernel keeps the lock with the open file, so that it ends
 * with the process, however that ends, and not before. Every process of the same kernel that has the same file
 * system before it sees the lock, from whatever container.
 *
 * Neither runtime has it in `node:fs`. Deno has a call of its own; Bun is lent libc's. Where there is none,
 * nothing can be locked, and nothing be told of a file.
 */
import fs, { constants } from "node:fs";

/** A locked file. It stays locked until it is closed or the process ends. */
export interface LockedFile {
  append(text: string): void;
  /** Adds permissions: `mode` is given those there are. */
  share(mode: (now: number) => number): void;
  close(): void;
}

const LOCK_SH = 1;
const LOCK_EX = 2;
const LOCK_NB = 4;

/**
 * Makes the file and locks it exclusively.
 * @returns null where that can't be done, with no file left
 */
export function createLocked(path: string): LockedFile | null {
  const { Deno } = globalThis as unknown as { Deno?: DenoLike };
  if (Deno) return createWithDeno(Deno, path);
  const flock = bunFlock();
  if (flock === null) return null;
  let fd: number;
  try {
    // The runtime sets O_CLOEXEC: no command that is started keeps the file open, and with it the lock.
    fd = fs.openSync(path, "wx", 0o666);
  } catch {
    return null;
  }
  if (flock(fd, LOCK_EX | LOCK_NB) !== 0) {
    fs.closeSync(fd);
    unlinkQuietly(path);
    return null;
  }
  return {
    append: (text) => void fs.writeSync(fd, text),
    share(mode) {
      const now = fs.fstatSync(fd).mode & 0o7777;
      if (mode(now) !== now) fs.fchmodSync(fd, mode(now));
    },
    close: () => fs.closeSync(fd),
  };
}

/**
 * Locks an existing file together with whoever else shares it. To have got that lock is a proof that nobody
 * holds it exclusively.
 * @returns `held`: somebody does; null: it can't be told
 */
export function lockShared(path: string): { close(): void } | "held" | null {
  const { Deno } = globalThis as unknown as { Deno?: DenoLike };
  try {
    if (Deno) {
      const file = Deno.openSync(path, { read: true });
      if (file.tryLockSync(false)) return file;
      file.close();
      return "held";
    }
    const flock = bunFlock();
    if (flock === null) return null;
    const { O_RDONLY, O_NONBLOCK, O_NOFOLLOW } = constants;
    const fd = fs.openSync(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
    if (flock(fd, LOCK_SH | LOCK_NB) === 0) return { close: () => fs.closeSync(fd) };
    fs.closeSync(fd);
    return "held";
  } catch {
    return null;
  }
}

interface DenoFile {
  writeSync(data: Uint8Array): number;
  tryLockSync(exclusive: boolean): boolean;
  close(): void;
}
interface DenoLike {
  openSync(path: string, options: Readonly<Record<string, boolean>>): DenoFile;
}

function createWithDeno(Deno: DenoLike, path: string): LockedFile | null {
  let file: DenoFile;
  try {
    file = Deno.openSync(path, { read: true, write: true, createNew: true });
  } catch {
    return null;
  }
  try {
    if (!file.tryLockSync(true)) throw new Error("locked by another");
  } catch {
    file.close();
    unlinkQuietly(path);
    return null;
  }
  return {
    append: (text) => void file.writeSync(new TextEncoder().encode(text)),
    share(mode) {
      const now = fs.lstatSync(path).mode & 0o7777;
      if (mode(now) !== now) fs.chmodSync(path, mode(now));
    },
    close: () => file.close(),
  };
}

type Flock = (fd: number, operation: number) => number;
interface BunFfi {
  dlopen(library: string, symbols: object): { symbols?: { flock?: Flock } } | Error;
}

/** `FFIType.int32_t` of `bun:ffi`. */
const INT = 5;

let found: Flock | null | undefined;

/** libc's flock; null where Bun can't be lent it. Loaded when first used: that takes a tenth of a millisecond. */
function bunFlock(): Flock | null {
  if (found !== undefined) return found;
  found = null;
  const arch = process.arch === "x64" ? "x86_64" : "aarch64";
  for (const library of ["libc.so.6", `libc.musl-${arch}.so.1`]) {
    try {
      const opened = bunFfi().dlopen(library, { flock: { args: [INT, INT], returns: INT } });
      const flock = "symbols" in opened ? opened.symbols?.flock : undefined;
      if (flock === undefined) continue;
      found = flock;
      break;
    } catch {
      // Another libc, or none that may be lent.
    }
  }
  return found;
}

/** What `bun:ffi` is made of, where it can be had: the module itself takes four times as long to load. */
function bunFfi(): BunFfi {
  const { Bun } = globalThis as { Bun?: { FFI?: BunFfi } };
  if (typeof Bun?.FFI?.dlopen === "function") return Bun.FFI;
  return (process.getBuiltinModule as unknown as (name: string) => BunFfi)("bun:ffi");
}

function unlinkQuietly(path: string): void {
  try {
    fs.unlinkSync(path);
  } catch {
    // Whoever tidies up removes it.
  }
}
