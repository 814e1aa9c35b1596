/**
 * What an answer was made from, so that a later run can tell whether it would be the same again.
 *
 * An input is a question about the file system; its value is the answer as text. Two runs with equal
 * values for the same inputs have read the same, so that what is computed from nothing else is the same.
 */
import {
  closeSync,
  constants,
  lstatSync,
  openSync,
  readdirSync,
  readSync,
  type Stats,
  statSync,
} from "node:fs";

/**
 * - `text`: what a file holds; of a long one how it begins, and which file it is;
 * - `names`: the names in a directory that begin with `prefix`;
 * - `kind`: whether there is a file, a directory or something else, links followed;
 * - `there`: whether there is anything, links not followed;
 * - `place`: which file or directory it is, whose, with which modes, links followed;
 * - `file`: the same, and when it was changed last, links not followed.
 */
export type Input =
  | readonly ["text" | "kind" | "there" | "place" | "file", path: string]
  | readonly ["names", path: string, prefix: string];

/** Longer than any configuration or ref; a state or packed refs may be longer. */
const WHOLE = 16 * 1024;
const BEGINNING = 1024;

/** Nobody waits for a FIFO's writer. */
const READ = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);

/** The value of each input now. Never throws: what can't be read has the error's code for its value. */
export function readInputs(inputs: readonly Input[]): string[] {
  const buffer = new Uint8Array(WHOLE + 1);
  return inputs.map((input) => {
    try {
      return valueOf(input, buffer);
    } catch (cause) {
      return `!${(cause as { code?: string }).code ?? cause}`;
    }
  });
}

/** A character for each byte, another for each value. */
const bytes = new TextDecoder("latin1");

function valueOf([question, path, prefix]: Input, buffer: Uint8Array): string {
  switch (question) {
    case "text": {
      const fd = openSync(path, READ);
      try {
        const length = fill(fd, buffer);
        return length <= WHOLE
          ? `=${bytes.decode(buffer.subarray(0, length))}`
          : `~${fileOf(statSync(path))} ${bytes.decode(buffer.subarray(0, BEGINNING))}`;
      } finally {
        closeSync(fd);
      }
    }
    case "names":
      return `=${readdirSync(path).filter((name) => name.startsWith(prefix!)).sort().join("/")}`;
    case "kind": {
      const stat = statSync(path);
      return stat.isFile() ? "file" : stat.isDirectory() ? "directory" : "other";
    }
    case "there":
      lstatSync(path);
      return "there";
    case "place":
      return placeOf(statSync(path));
    case "file":
      return fileOf(lstatSync(path));
  }
}

/** Reads to the end of the file or of the buffer. */
function fill(fd: number, buffer: Uint8Array): number {
  let length = 0;
  while (length < buffer.length) {
    const count = readSync(fd, buffer, length, buffer.length - length, null);
    if (count === 0) break;
    length += count;
  }
  return length;
}

const placeOf = ({ dev, ino, mode, uid }: Stats) => `${dev}:${ino}:${mode}:${uid}`;

const fileOf = (stat: Stats) => `${placeOf(stat)}:${stat.size}:${stat.mtimeMs}:${stat.ctimeMs}`;

interface BunHash {
  readonly Bun?: { hash(text: string): bigint };
}

/** Sixteen hex digits that tell texts apart, and a torn file from a whole one. Bun's alone. */
export function fingerprint(text: string): string {
  return (globalThis as BunHash).Bun!.hash(text).toString(16).padStart(16, "0");
}
