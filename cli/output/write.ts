/**
 * Writing to stdout and stderr whole, so that a fast exit loses nothing. A reader that went away ends
 * the run as SIGPIPE would; an answer that can't be written (a full disk) is remembered as a failure.
 */
import { writeSync } from "node:fs";
import { wasClosed } from "./closed.ts";

let lost: string | null = null;
let looked = false;
let onClosed = (): void => process.exit(141);

/** The exit code of a run that would end with `code`: 2, with a word on stderr, where its answer was lost. */
export function codeAfterOutput(code: number): number {
  if (lost === null || code > 128) return code;
  if (!errorTold) {
    writeErr(
      `agentq: standard output can't be written: ${lost}\n` +
        "hint: Give it an output that takes its answer; look first what the command has done already.\n",
    );
  }
  return 2;
}

let errorTold = false;

/** An error was told on stderr: it is the one word that a run ends with. */
export function tellError(text: string): void {
  errorTold = true;
  writeErr(text);
}

/** Why standard output can't be written, as far as is known: the answer to come, or that before, is lost. */
export function outputFault(): string | null {
  if (!looked) {
    looked = true;
    if (wasClosed(1)) lost ??= "it is closed";
  }
  return lost;
}

/** Has `end` called, rather than the process ended, when nobody reads standard output any more. */
export function whenOutputCloses(end: () => void): void {
  onClosed = end;
}

/** Writes all of it; waits while a pipe is full. */
function writeAll(fd: 1 | 2, text: string | Uint8Array): void {
  const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
  let at = 0;
  while (at < bytes.length) {
    try {
      at += writeSync(fd, bytes, at);
    } catch (error) {
      const code = (error as { code?: string }).code;
      if (code === "EAGAIN") {
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
        continue;
      }
      if (fd === 1 && code === "EPIPE") onClosed();
      else if (fd === 1) lost ??= code ?? String(error);
      return;
    }
  }
}

let answered = false;

/** Whether anything has gone to standard output. */
export function hasAnswered(): boolean {
  return answered;
}

/** Text, or another program's bytes passed on. */
export function writeOut(text: string | Uint8Array): void {
  answered = true;
  outputFault(); // A stream that was closed takes anything.
  writeAll(1, text);
}

export function writeErr(text: string): void {
  writeAll(2, text);
}
