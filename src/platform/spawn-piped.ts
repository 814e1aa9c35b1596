/** Starting a program whose output is read here, through pipes that it can also open by name. */
import { Buffer } from "node:buffer";
import type { ChildProcess } from "node:child_process";
import { closeSync } from "node:fs";
import type { Readable } from "node:stream";
import { nodeChildProcess } from "./builtins.ts";
import { closePipe, inputFile, openPipe, type Pipe, readPipe } from "./pipes.ts";

export interface PipedOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** In a process group and session of its own. */
  readonly detached?: boolean;
  /** Bytes for its standard input; without them that is /dev/null. */
  readonly input?: string | Uint8Array;
  /** False: its standard error is dropped. */
  readonly stderr?: boolean;
  /** True: its descriptor 3 is a socket, `child.stdio[3]` here. */
  readonly socket?: boolean;
}

export interface Piped {
  readonly child: ChildProcess;
  /** Standard output, and standard error unless that is dropped. */
  readonly outputs: readonly Readable[];
  /** Resolves once the program is gone and all that it, and what it left running, said has been read. */
  readonly closed: Promise<void>;
}

/** Throws what the system says; a missing program may be told by the child's `error` only. */
export function spawnPiped(program: string, args: readonly string[], options: PipedOptions): Piped {
  const { cwd, env, detached = false, stderr = true, socket = false } = options;
  const input = options.input === undefined ? undefined : Buffer.from(options.input);
  const given = input === undefined ? null : inputFile(input);
  const pipes: (Pipe | null)[] = [openPipe(), ...(stderr ? [openPipe()] : [])];
  let child: ChildProcess;
  try {
    child = nodeChildProcess().spawn(program, [...args], {
      ...(cwd === undefined ? {} : { cwd }),
      ...(env === undefined ? {} : { env: env as NodeJS.ProcessEnv }),
      detached,
      stdio: [
        input === undefined ? "ignore" : given ?? "pipe",
        ...pipes.map((pipe) => pipe?.write ?? "pipe" as const),
        ...(stderr ? [] : ["ignore" as const]),
        ...(socket ? ["pipe" as const] : []),
      ],
    });
  } catch (error) {
    pipes.forEach((pipe) => pipe && closePipe(pipe));
    throw error;
  } finally {
    if (given !== null) closeSync(given);
  }
  const outputs = pipes.map((pipe, i) => {
    if (pipe === null) return i === 0 ? child.stdout : child.stderr;
    closeSync(pipe.write);
    return readPipe(pipe.read);
  }).filter((stream) => stream != null);
  // A program may end without reading its input.
  child.stdin?.on("error", () => {});
  if (given === null && input !== undefined) child.stdin?.end(input);
  const closed = Promise.all([
    new Promise<void>((resolve) => child.once("close", () => resolve())),
    ...outputs.map((stream) =>
      new Promise<void>((resolve) => stream.once("close", () => resolve()))
    ),
  ]).then(() => {});
  for (const stream of outputs) stream.on("error", () => {});
  return { child, outputs, closed };
}
