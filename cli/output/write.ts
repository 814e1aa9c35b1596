/**
 * Writing to stdout and stderr whole, so that a fast exit loses nothing. A reader that went away ends
 * the run as SIGPIPE would; an answer that can't be written (a full disk) is remembered as a failure.
 * An answer waits for its reader; what is said on stderr never does, see `outlet.ts`.
 */
import { fstatSync, writeSync } from "node:fs";
import { wasClosed } from "./closed.ts";
import { createOutlet, type Outlet, pause } from "./outlet.ts";
import { sinkFor } from "./sinks.ts";

let lost: string | null = null;
let looked = false;
let onClosed = (): void => endRun(141);

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
  sayOnStderr(text, true);
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
        pause(5);
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
  // What was said before stands before it, and both wait for the same reader.
  if (said && outputsAreOne()) said.settle(Infinity, Infinity);
  writeAll(1, text);
}

/** Where words on stderr go that have to wait; null where none have to, undefined before the first. */
let said: Outlet | null | undefined;

function sayOnStderr(text: string, last: boolean): void {
  if (said === undefined) {
    const sink = sinkFor(2);
    said = sink && createOutlet(sink);
  }
  if (said === null) writeAll(2, text);
  else said.say(new TextEncoder().encode(text), last);
}

/** Says something on stderr, without waiting for its reader. */
export function writeErr(text: string): void {
  sayOnStderr(text, false);
}

let one: boolean | undefined;

/** Whether stdout and stderr are the same pipe, terminal or socket, as with `2>&1`. */
function outputsAreOne(): boolean {
  if (one === undefined) {
    try {
      const [out, err] = [fstatSync(1), fstatSync(2)];
      one = out.dev === err.dev && out.ino === err.ino;
    } catch {
      one = false;
    }
  }
  return one;
}

/** How long the reader of stderr is given at the end: without taking anything, and in all. */
const QUIET_MS = 1000;
const MOST_MS = 10_000;

/** Gives what was said on stderr a little time to be read, before the process ends. */
export function settleStderr(): void {
  said?.settle(QUIET_MS, MOST_MS);
}

/** Ends the process. */
export function endRun(code: number): never {
  settleStderr();
  process.exit(code);
}
