/**
 * Running one command as a process group of its own, so that it can be ended whole.
 *
 * The group dies with its command: when the command exits, is timed out or aborted, everything it
 * started in its group is killed, and when this process itself is killed, even by SIGKILL, a watcher
 * inside the group sees its pipe close and kills the group. Nothing of an abandoned check runs on.
 */
import { Buffer } from "node:buffer";
import type { Readable } from "node:stream";
import { AgentqError, isAgentqError } from "../errors.ts";
import { abortReason } from "./clock.ts";
import { restoreVariables } from "./raw-environment.ts";
import { type Piped, spawnPiped } from "./spawn-piped.ts";

export type OnOutput = (chunk: Uint8Array, from: "stdout" | "stderr") => Promise<void> | void;

export interface CommandOptions {
  readonly cwd: string;
  /** Added to this process's environment; undefined takes a variable away. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Milliseconds after which the whole group is killed. */
  readonly timeoutMs: number;
  /** Aborting kills the whole group; the returned promise then rejects with the signal's reason. */
  readonly signal?: AbortSignal;
  /** Words put in front, such as a sandbox program with its arguments. */
  readonly wrapper?: readonly string[];
  /**
   * Receives stdout and stderr as they come, interleaved. While a promise that it returned is not resolved, no more is
   * read of that one: the command waits, as at any pipe that is full. What it leaves there when it ends is read at once.
   */
  readonly onOutput?: OnOutput;
  /** Bytes for its standard input; without them it is closed. */
  readonly input?: Uint8Array;
}

export interface CommandResult {
  /** Exit status; null when a signal ended it. */
  readonly exit: number | null;
  readonly killedBy: string | null;
  readonly timedOut: boolean;
  readonly ms: number;
  /** The end of what it wrote, stdout and stderr interleaved, at most {@link MAX_TAIL_BYTES}. */
  readonly tail: Uint8Array;
}

/** How much of a command's output is kept. */
export const MAX_TAIL_BYTES = 256 * 1024;

/** How long output that is still in the pipes may take to arrive after the command is gone. */
const DRAIN_MS = 2000;

/**
 * `$$` is the group (the shell is its leader) and fd 3 a socket that only this process holds open: its
 * end means that we are gone. The subshell closes the command's output so as not to hold it open, and
 * gives up where a wrapper has closed the socket. A line on it says that the command is begun: a shell that
 * can't make another process ends before, with a status that a command might end with too.
 */
const WATCHED =
  `(exec >/dev/null 2>&1 </dev/null; true <&3 || exit; read -r _ <&3; kill -9 -$$) & ` +
  `echo >&3; exec 3<&- && exec sh -c "$1"`;

const WHY_NOT_STARTED: Readonly<Record<string, string>> = {
  ENOENT: "there is no such program on PATH here",
  EACCES: "it may not be executed here",
  E2BIG: "its command line and environment are longer than the system allows",
  EAGAIN: "no more processes can be started now",
  EMFILE: "too many files are open here",
  ENFILE: "the system has too many open files",
  ENOMEM: "memory is short",
  ENOEXEC: "it is no program for this machine, or damaged",
  ETXTBSY: "its file is being written",
};

/** What a system says that is short of something: in a moment it may not be. */
const SHORT_OF: readonly unknown[] = ["EAGAIN", "EMFILE", "ENFILE", "ENOMEM"];

/**
 * True for a program that couldn't be started for now: the system, or this process, is short of something, or
 * the program's file is being written.
 */
export function isShortage(error: unknown): error is AgentqError {
  if (!isAgentqError(error, "command-not-started")) return false;
  const errno = error.details?.errno;
  return errno === "ETXTBSY" || SHORT_OF.includes(errno);
}

/** The error for a program that the system didn't start. */
export function notStarted(program: string, cause: unknown): AgentqError {
  const { code: errno, message } = cause as NodeJS.ErrnoException;
  const why = WHY_NOT_STARTED[errno ?? ""] ?? errno ?? message;
  return new AgentqError("command-not-started", `${program} could not be started: ${why}`, {
    cause,
    details: { program, errno },
    ...(SHORT_OF.includes(errno)
      ? { retryable: true, hint: "Raise the limit (ulimit -n, ulimit -u), or run fewer at once." }
      : errno === "ENOEXEC"
      ? { hint: "Put a program there that is whole, and built for this machine." }
      : errno === "ETXTBSY"
      ? { retryable: true, hint: "Write a new version beside it and move it into place (mv)." }
      : {}),
  });
}

/**
 * Runs `command` with `sh -c` in its own process group, standard input closed unless `input` is given.
 *
 * @throws `command-not-started` when the shell or wrapper can't be run here; the abort reason
 */
export function runCommand(command: string, options: CommandOptions): Promise<CommandResult> {
  const script = restoreVariables(options.env ?? {}) + command;
  const words = [...(options.wrapper ?? []), "sh", "-c", WATCHED, "sh", script];
  const { signal } = options;
  if (signal?.aborted) return Promise.reject(abortReason(signal));
  const started = performance.now();
  return new Promise((resolve, reject) => {
    let piped: Piped;
    try {
      piped = spawnPiped(words[0]!, words.slice(1), {
        cwd: options.cwd,
        env: Object.fromEntries(
          Object.entries({ ...process.env, ...options.env }).filter(([, value]) =>
            value !== undefined
          ),
        ),
        detached: true,
        ...(options.input === undefined ? {} : { input: options.input }),
        socket: true,
      });
    } catch (cause) {
      return reject(notStarted(words[0]!, cause));
    }
    const { child, outputs, closed } = piped;
    const tail = createTail();
    const watch = child.stdio?.[3] as Readable | null | undefined;
    let ended = false;
    outputs.forEach((stream, i) => {
      stream.on("data", (chunk: Uint8Array) => {
        tail.add(chunk);
        const taken = options.onOutput?.(chunk, i === 0 ? "stdout" : "stderr");
        if (!(taken instanceof Promise) || ended) return;
        stream.pause();
        taken.finally(() => stream.resume());
      });
    });
    let begun = false;
    const said = new Promise<void>((resolve) => {
      watch?.on("error", () => resolve()).on("close", () => resolve()).on("end", () => resolve())
        .on("data", () => {
          begun = true;
          resolve();
        });
    });

    let timedOut = false;
    let settled = false;
    let aborted = false;
    const kill = () => {
      if (child.pid === undefined) return;
      try {
        process.kill(-child.pid, "SIGKILL");
      } catch {
        // Already gone, all of it.
      }
    };
    const timer = setTimeout(() => {
      timedOut = true;
      kill();
    }, Math.min(options.timeoutMs, 0x7fffffff));
    const onAbort = () => {
      aborted = true;
      kill();
    };
    signal?.addEventListener("abort", onAbort, { once: true });
    const settle = (finish: () => void) => {
      if (settled) return;
      settled = true;
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
      for (const stream of outputs) stream.destroy();
      watch?.destroy();
      finish();
    };

    child.once("error", (cause) =>
      settle(() =>
        reject(
          notStarted(words[0]!, cause),
        )
      ));
    child.once("exit", (code, killedBy) => {
      const ms = Math.round(performance.now() - started);
      // It ended by itself: what it left behind may hold its output open for longer than it had time.
      clearTimeout(timer);
      // Other programs' shells needn't have the socket.
      const failed = code !== 0 && killedBy === null && !timedOut && options.wrapper === undefined;
      // Whatever it left behind in its group ends with it, the watcher too.
      kill();
      const finish = () =>
        settle(() => {
          if (aborted) reject(abortReason(signal!));
          else if (failed && !begun) {
            reject(
              notStarted("sh", { code: "EAGAIN", message: Buffer.from(tail.bytes()).toString() }),
            );
          } else {
            resolve({
              exit: killedBy === null ? code : null,
              killedBy,
              timedOut,
              ms,
              tail: tail.bytes(),
            });
          }
        });
      // What is left in its pipes is little, and it waits for nobody any more.
      ended = true;
      for (const stream of outputs) stream.resume();
      // A process that left the group may hold the pipes open for ever: wait a bounded time only.
      const drained = setTimeout(finish, DRAIN_MS);
      closed.then(() => {
        const end = () => {
          clearTimeout(drained);
          finish();
        };
        // The line may come after the end.
        if (failed && !begun) said.then(end);
        else end();
      });
    });
  });
}

/** Keeps the last {@link MAX_TAIL_BYTES} of what is added. */
function createTail(): { add(chunk: Uint8Array): void; bytes(): Uint8Array } {
  let chunks: Uint8Array[] = [];
  let size = 0;
  const joined = () => {
    const all = Buffer.concat(chunks);
    return all.length > MAX_TAIL_BYTES ? all.subarray(all.length - MAX_TAIL_BYTES) : all;
  };
  return {
    add(chunk) {
      chunks.push(chunk);
      size += chunk.length;
      if (size > 4 * MAX_TAIL_BYTES) {
        const kept = Buffer.from(joined());
        chunks = [kept];
        size = kept.length;
      }
    },
    bytes: joined,
  };
}
