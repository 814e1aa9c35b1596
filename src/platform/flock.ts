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

/**
 * Locks a file that is open here, until it is closed: `exclusive` alone, `shared` together with whoever else does.
 * @returns false: somebody holds it so that it can't be; null: nothing can be locked here
 */
export function lockOpen(fd: number, how: "exclusive" | "shared"): boolean | null {
  const flock = anyFlock();
  if (flock === null || !isOfTheSystem(fd)) return null;
  return flock(fd, (how === "exclusive" ? LOCK_EX : LOCK_SH) | LOCK_NB) === 0;
}

/** Whether {@link lockOpen} can lock anything: what takes time is done then. */
export function canLockOpen(): boolean {
  return anyFlock() !== null;
}

interface DenoFile {
  writeSync(data: Uint8Array): number;
  tryLockSync(exclusive: boolean): boolean;
  close(): void;
}
interface DenoLike {
  dlopen(library: string, symbols: object): { symbols: { flock: Flock } };
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

const libraries = () => {
  const arch = process.arch === "x64" ? "x86_64" : "aarch64";
  return ["libc.so.6", `libc.musl-${arch}.so.1`];
};

/** libc's flock; null where Bun can't be lent it. Loaded when first used: that takes a tenth of a millisecond. */
function bunFlock(): Flock | null {
  return found === undefined
    ? found = borrowed((library) => {
      const opened = bunFfi().dlopen(library, { flock: { args: [INT, INT], returns: INT } });
      return "symbols" in opened ? opened.symbols?.flock : undefined;
    })
    : found;
}

/** The same of either runtime. Deno's own call takes files of its own making alone, by their paths. */
function anyFlock(): Flock | null {
  const { Deno } = globalThis as unknown as { Deno?: DenoLike };
  if (!Deno) return bunFlock();
  return found === undefined
    ? found = borrowed((library) =>
      Deno.dlopen(library, { flock: { parameters: ["i32", "i32"], result: "i32" } }).symbols.flock
    )
    : found;
}

function borrowed(from: (library: string) => Flock | undefined): Flock | null {
  for (const library of libraries()) {
    try {
      const flock = from(library);
      if (flock !== undefined) return flock;
    } catch {
      // Another libc, or none that may be lent.
    }
  }
  return null;
}

/** Deno's numbers of open files haven't always been the system's. */
function isOfTheSystem(fd: number): boolean {
  if (!("Deno" in globalThis)) return true;
  try {
    const [ours, theirs] = [
      fs.fstatSync(fd, { bigint: true }),
      fs.statSync(`/proc/self/fd/${fd}`, { bigint: true }),
    ];
    return ours.dev === theirs.dev && ours.ino === theirs.ino;
  } catch {
    return false;
  }
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
