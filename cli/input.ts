/** Standard input, where a command was told to read it. */
import { Buffer } from "node:buffer";
import { fstatSync } from "node:fs";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { AgentqError } from "../src/errors.ts";
import { wasClosed } from "./output/closed.ts";

/** The stream. Throws `usage` where it was closed, `io-error` where it is none to read from. */
export function standardInput(): Readable {
  if (wasClosed(0)) {
    throw new AgentqError("usage", "standard input is closed", {
      hint: "Redirect a file or a pipe to it; < /dev/null for nothing at all.",
    });
  }
  try {
    if (fstatSync(0).isDirectory()) throw Object.assign(new Error(), { code: "EISDIR" });
    return process.stdin;
  } catch (error) {
    throw inputFault(error);
  }
}

/** All of it. Throws as {@link standardInput} does, and the signal's reason as soon as it is aborted. */
export async function readStandardInput(signal: AbortSignal): Promise<Uint8Array> {
  const stream = standardInput();
  const chunks: Uint8Array[] = [];
  const read = async () => {
    for await (const chunk of stream) chunks.push(Buffer.from(chunk));
  };
  const { stopped, forget } = stopping(signal);
  try {
    await Promise.race([read(), stopped]);
  } catch (error) {
    throw signal.aborted ? signal.reason : inputFault(error);
  } finally {
    forget();
  }
  return Buffer.concat(chunks);
}

/** Its lines as they come. Throws as {@link readStandardInput} does, between two lines too. */
export async function* inputLines(signal: AbortSignal): AsyncGenerator<string> {
  const stream = standardInput();
  const lines = createInterface({ input: stream, crlfDelay: Infinity })[Symbol.asyncIterator]();
  // What goes wrong with the stream isn't told by its lines.
  const broken = new Promise<never>((_, reject) => stream.once("error", reject));
  broken.catch(() => {});
  const { stopped, forget } = stopping(signal);
  try {
    for (;;) {
      const next = await Promise.race([lines.next(), broken, stopped]);
      signal.throwIfAborted();
      if (next.done) return;
      yield next.value;
    }
  } catch (error) {
    throw signal.aborted ? signal.reason : inputFault(error);
  } finally {
    forget();
  }
}

/** Rejects with the signal's reason as soon as it is aborted. */
function stopping(signal: AbortSignal): { stopped: Promise<never>; forget(): void } {
  let stop = () => {};
  const stopped = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
  });
  stopped.catch(() => {}); // Whoever races with it may have ended.
  return { stopped, forget: () => signal.removeEventListener("abort", stop) };
}

/** What reading it met. */
function inputFault(error: unknown): AgentqError {
  const { code, message } = error as { code?: unknown; message?: unknown };
  const errno = typeof code === "string" ? code : undefined;
  const what = errno === "EISDIR" ? "it is a directory" : String(message ?? error);
  return new AgentqError("io-error", `standard input can't be read: ${what}`, {
    cause: error,
    hint: "Redirect a file or a pipe to standard input.",
    details: { errno },
  });
}
