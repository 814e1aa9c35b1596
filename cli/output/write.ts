/**
 * Writing to stdout and stderr whole, so that a fast exit loses nothing. A reader that went away ends
 * the run as SIGPIPE would; an answer that can't be written (a full disk) is remembered as a failure.
 * An answer waits for its reader; what is said on stderr never does, see `outlet.ts`.
 */
import { fstatSync, writeSync } from "node:fs";
import { wasClosed } from "./closed.ts";
import { createOutlet, type Outlet, pause } from "./outlet.ts";
import { type PassOn, passOn } from "./pass-on.ts";
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
      if (fd === 1) outputFailed(code ?? String(error));
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

let passing: PassOn | null | undefined;

/**
 * Another program's output passed on: its bytes as they are, to a reader whom nothing but that program waits for.
 * Returns a promise where it is to wait, which resolves once the reader has them.
 */
export function passOut(bytes: Uint8Array): Promise<void> | undefined {
  if (passing === undefined) {
    const sink = outputFault() === null ? sinkFor(1, outputFailed) : null;
    // What was said before stands before it, where both go to the same reader.
    passing = sink && passOn(sink, () => !said || !outputsAreOne() || said.settle(0, 0));
  }
  if (passing === null) return void writeOut(bytes);
  answered = true;
  return passing.pass(bytes);
}

/** Waits while much of what was passed on is still with us. @throws the signal's reason */
export async function passReady(signal: AbortSignal): Promise<void> {
  await passing?.ready(signal);
}

/**
 * Waits until the reader has what was passed on; once `stopping`, no longer than a second in which it takes nothing.
 * Returns how many bytes nobody has taken.
 */
export async function settlePassed(stopping: AbortSignal): Promise<number> {
  let [moved, before] = [performance.now(), Infinity];
  for (;;) {
    const left = passing?.left() ?? 0;
    if (left === 0) return 0;
    const now = performance.now();
    if (left !== before || !stopping.aborted) [moved, before] = [now, left];
    if (now - moved >= QUIET_MS) return left;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Whether all that was to be told so far is in its reader's hands, as far as a writer can know. */
export function isAnswerWhole(): boolean {
  return answered && !failed && outputFault() === null;
}

let failed = false;

function outputFailed(code: string): void {
  failed = true;
  if (code === "EPIPE") onClosed();
  else lost ??= code;
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
