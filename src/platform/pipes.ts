/**
 * Real pipes to programs. This runtime's own "pipes" are sockets, and what a socket is behind can't be
 * opened by name: a program that writes to /dev/stderr, or reads /dev/stdin, fails with ENXIO.
 *
 *   mkfifo, a few at a time ─▶ both ends opened ─▶ names removed ─▶ one end to the child, one read here
 *
 * Where no FIFO can be made (no such program, a file system that has none) sockets have to do.
 */
import { closeSync, constants, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { nodeChildProcess, nodeOs, nodeStream } from "./builtins.ts";

/** Both ends of a pipe, as file descriptors. `read` doesn't block, `write` does. */
export interface Pipe {
  readonly read: number;
  readonly write: number;
}

/** As much of the runtime as is used here. */
interface Runtime {
  file(fd: number): { stream(): ReadableStream<Uint8Array> };
}
const runtime = (globalThis as { Bun?: Runtime }).Bun;

const { O_RDONLY, O_WRONLY, O_NONBLOCK } = constants;

/** Pipes that are ready; more and more are made at a time, since each time starts a program. */
const ready: Pipe[] = [];
let batch = 2;
const MAX_BATCH = 8;

/** False once none could be made: nothing is tried again. */
let possible = runtime !== undefined && process.platform !== "win32";

/** A pipe that nobody else has, or null where there are only sockets. */
export function openPipe(): Pipe | null {
  if (ready.length === 0 && possible) {
    try {
      ready.push(...makePipes(batch));
      batch = Math.min(2 * batch, MAX_BATCH);
    } catch {
      possible = false;
    }
  }
  return ready.pop() ?? null;
}

function makePipes(count: number): Pipe[] {
  const directory = mkdtempSync(join(nodeOs().tmpdir(), PREFIX));
  try {
    const names = namesIn(directory, count);
    const made = nodeChildProcess().spawnSync("mkfifo", ["-m", "600", ...names], {
      stdio: "ignore",
    });
    if (made.status !== 0) throw made.error ?? new Error("mkfifo failed");
    return openAll(names);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

let preparing: Promise<void> | null = null;

/**
 * Makes pipes for one program meanwhile, for who knows that one is to be started soon, and waits for them then:
 * a program that kills this process would leave their names.
 */
export function preparePipes(): Promise<void> {
  if (!possible || ready.length > 0) return Promise.resolve();
  return preparing ??= new Promise<void>(prepare).finally(() => preparing = null);
}

function prepare(resolve: () => void): void {
  let directory: string | null = null;
  const end = () => {
    if (directory !== null) rmSync(directory, { recursive: true, force: true });
    resolve();
  };
  try {
    directory = mkdtempSync(join(nodeOs().tmpdir(), PREFIX));
    const names = namesIn(directory, 2);
    const child = nodeChildProcess().spawn("mkfifo", ["-m", "600", ...names], { stdio: "ignore" });
    child.once("error", end);
    child.once("exit", (status) => {
      try {
        if (status === 0) ready.push(...openAll(names));
      } catch {
        // Whoever wants one makes it.
      } finally {
        end();
      }
    });
  } catch {
    end();
  }
}

const PREFIX = "agentq-pipes-";

const namesIn = (directory: string, count: number): string[] =>
  Array.from({ length: count }, (_, i) => join(directory, String(i)));

function openAll(names: readonly string[]): Pipe[] {
  const pipes: Pipe[] = [];
  try {
    for (const name of names) {
      const read = openSync(name, O_RDONLY | O_NONBLOCK);
      try {
        pipes.push({ read, write: openSync(name, O_WRONLY) });
      } catch (error) {
        closeSync(read);
        throw error;
      }
    }
    return pipes;
  } catch (error) {
    pipes.forEach(closePipe);
    throw error;
  }
}

export function closePipe({ read, write }: Pipe): void {
  closeSync(read);
  closeSync(write);
}

/** What comes out of a pipe's end, which is closed with the stream. */
export function readPipe(read: number): Readable {
  const source = runtime!.file(read).stream().getReader();
  let open = true;
  const close = () => {
    if (open) closeSync(read);
    open = false;
  };
  return new (nodeStream().Readable)({
    read() {
      source.read().then(({ done, value }) => {
        if (done) close();
        this.push(done ? null : value);
      }, (error) => this.destroy(error));
    },
    destroy(error, done) {
      source.cancel().catch(() => {}).then(() => {
        close();
        done(error);
      });
    },
  });
}

/**
 * A file descriptor to read `bytes` from: a file without a name, since a pipe would have to be filled
 * while the program reads. Null where none can be made.
 */
export function inputFile(bytes: Uint8Array): number | null {
  if (!possible) return null;
  let directory: string | null = null;
  try {
    directory = mkdtempSync(join(nodeOs().tmpdir(), "agentq-input-"));
    const path = join(directory, "input");
    const fd = openSync(path, "wx", 0o600);
    try {
      for (let at = 0; at < bytes.length;) at += writeSync(fd, bytes, at);
    } finally {
      closeSync(fd);
    }
    return openSync(path, O_RDONLY);
  } catch {
    return null;
  } finally {
    if (directory !== null) rmSync(directory, { recursive: true, force: true });
  }
}
