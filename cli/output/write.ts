/** Writing to stdout and stderr whole, so that a fast exit loses nothing and a closed pipe is no error. */
import { writeSync } from "node:fs";
import process from "node:process";

const sleeper = new Int32Array(new SharedArrayBuffer(4));

/** Writes all of it; waits while a pipe is full; a reader that went away ends the process. */
function writeAll(fd: 1 | 2, text: string | Uint8Array): void {
  const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
  let at = 0;
  while (at < bytes.length) {
    try {
      at += writeSync(fd, bytes, at);
    } catch (error) {
      const code = (error as { code?: string }).code;
      if (code === "EAGAIN") Atomics.wait(sleeper, 0, 0, 5);
      else if (code === "EPIPE" && fd === 1) process.exit(141);
      else return;
    }
  }
}

/** Text, or another program's bytes passed on. */
export function writeOut(text: string | Uint8Array): void {
  writeAll(1, text);
}

export function writeErr(text: string): void {
  writeAll(2, text);
}
