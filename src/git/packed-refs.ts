/**
 * The `packed-refs` file: one line a ref, `id SP name`, sorted by bytes; a line `^id` gives what the
 * tag above it peels to. A large file is searched by position; a small one is read whole. One open
 * file is one state: git replaces it by renaming.
 */
import { Buffer } from "node:buffer";
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { AgentqError } from "../errors.ts";
import type { Oid } from "./types.ts";

export interface PackedRef {
  readonly name: string;
  readonly oid: Oid;
  /** What an annotated tag finally names, where the file says so. */
  readonly peeled: Oid | null;
}

export interface PackedRefs {
  get(name: string): PackedRef | null;
  /** Refs whose name starts with `prefix`, in byte order. */
  list(prefix: string): PackedRef[];
}

const WHOLE = 64 * 1024;
const STEP = 8 * 1024;
/** Enough for one ref, what it peels to, and the line behind. */
const ONE = 384;
const NONE: PackedRefs = { get: () => null, list: () => [] };

const toBytes = (text: string) => Buffer.from(text, "utf8").toString("latin1");
const fromBytes = (bytes: string) =>
  /[\x80-\xff]/.test(bytes) ? Buffer.from(bytes, "latin1").toString("utf8") : bytes;

function corrupt(path: string, line: string): AgentqError {
  return new AgentqError(
    "repository-corrupt",
    `${path} has a malformed line: ${JSON.stringify(line.slice(0, 120))}.`,
    {
      details: { path },
    },
  );
}

/** Parses lines into refs whose names are still byte strings. */
function parseLines(text: string, path: string): PackedRef[] {
  const refs: { name: string; oid: Oid; peeled: Oid | null }[] = [];
  for (const line of text.split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    if (/^\^[0-9a-f]{40}$/.test(line) && refs.length > 0) refs.at(-1)!.peeled = line.slice(1);
    else if (/^[0-9a-f]{40} ./.test(line)) {
      refs.push({ oid: line.slice(0, 40), name: line.slice(41).replace(/\r$/, ""), peeled: null });
    } else throw corrupt(path, line);
  }
  return refs;
}

const decoded = (ref: PackedRef): PackedRef => ({ ...ref, name: fromBytes(ref.name) });
const byName = (a: PackedRef, b: PackedRef) => a.name < b.name ? -1 : a.name > b.name ? 1 : 0;

function fromText(text: string, path: string): PackedRefs {
  const refs = parseLines(text, path).sort(byName);
  const map = new Map(refs.map((ref) => [ref.name, ref]));
  return {
    get: (name) => {
      const ref = map.get(toBytes(name));
      return ref ? decoded(ref) : null;
    },
    list: (prefix) => {
      const wanted = toBytes(prefix);
      return refs.filter((ref) => ref.name.startsWith(wanted)).map(decoded);
    },
  };
}

/** Parses the content of a packed-refs file. @throws `repository-corrupt`, naming `path` */
export function parsePackedRefs(content: Uint8Array, path = "packed-refs"): PackedRef[] {
  return fromText(Buffer.from(content).toString("latin1"), path).list("");
}

/** Searches an open, sorted file by position. */
function searchable(fd: number, size: number, start: number, path: string): PackedRefs {
  function text(at: number, length: number): string {
    const data = Buffer.allocUnsafe(Math.max(0, Math.min(length, size - at)));
    let done = 0;
    while (done < data.length) {
      const got = readSync(fd, data, done, data.length - done, at + done);
      if (got === 0) break;
      done += got;
    }
    return data.toString("latin1", 0, done);
  }

  /** The first ref line that begins at or behind `at`: its position, its end and its name. */
  function refFrom(at: number): { begin: number; end: number; name: string } | null {
    let length = STEP / 8;
    for (;;) {
      // One byte before tells whether a line begins exactly here.
      const part = text(at - 1, length);
      const whole = at - 1 + part.length >= size;
      for (let line = part.indexOf("\n") + 1; line > 0;) {
        let end = part.indexOf("\n", line);
        if (end < 0 && whole && line < part.length) end = part.length;
        if (end < 0) break;
        if (part[line] !== "^" && part[line] !== "#" && end > line) {
          if (!/^[0-9a-f]{40} $/.test(part.slice(line, line + 41))) {
            throw corrupt(path, part.slice(line, end));
          }
          return { begin: at - 1 + line, end: at + end, name: part.slice(line + 41, end) };
        }
        line = end + 1;
      }
      if (whole) return null;
      length *= 4;
    }
  }

  /** Where the first line with a name not below `wanted` begins; `size` when there is none. */
  function lowerBound(wanted: string): number {
    let low = start;
    let high = size;
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      const ref = refFrom(middle);
      if (ref === null || ref.begin >= high) {
        // No line begins in the upper half: the answer is in the lower one, or is `high`.
        high = middle;
      } else if (ref.name < wanted) low = ref.end;
      else if (middle <= low) return ref.begin;
      else high = middle;
    }
    return refFrom(low)?.begin ?? size;
  }

  function list(wanted: string, limit: number): PackedRef[] {
    const found: PackedRef[] = [];
    let at = lowerBound(wanted);
    let rest = "";
    while (at < size) {
      const part = text(at, limit === 1 ? ONE : STEP);
      if (part === "") break;
      at += part.length;
      const lines = rest + part;
      // Kept back: the last line, and the ref before it, whose `^` line may be still to come.
      const cut = at < size
        ? lines.lastIndexOf("\n", lines.lastIndexOf("\n") - 1) + 1
        : lines.length;
      const keep = at < size && lines[cut] === "^" ? lines.lastIndexOf("\n", cut - 2) + 1 : cut;
      rest = lines.slice(keep);
      for (const ref of parseLines(lines.slice(0, keep), path)) {
        if (!ref.name.startsWith(wanted) || found.length >= limit) return found;
        found.push(ref);
      }
    }
    return found;
  }

  return {
    get: (name) => {
      const wanted = toBytes(name);
      const ref = list(wanted, 1)[0];
      return ref?.name === wanted ? decoded(ref) : null;
    },
    list: (prefix) => list(toBytes(prefix), Infinity).map(decoded),
  };
}

/**
 * Opens `packed-refs` in `commonDir` for the time of `work`; without a file there are no refs in it.
 * @throws `repository-corrupt`
 */
export function withPackedRefs<T>(commonDir: string, work: (refs: PackedRefs) => T): T {
  const path = `${commonDir}/packed-refs`;
  let fd: number;
  try {
    fd = openSync(path, "r");
  } catch (cause) {
    const code = (cause as { code?: string }).code;
    if (code === "ENOENT" || code === "ENOTDIR") return work(NONE);
    throw new AgentqError("io-error", `Cannot open ${path} (${code || cause}).`, {
      cause,
      details: { path },
    });
  }
  try {
    const { size } = fstatSync(fd);
    // Of a large file only the header, to begin with.
    const head = Buffer.allocUnsafe(size <= WHOLE ? size : 1024);
    let got = 0;
    while (got < head.length) {
      const more = readSync(fd, head, got, head.length - got, got);
      if (more === 0) break;
      got += more;
    }
    let text = head.toString("latin1", 0, got);
    if (got === size && size <= WHOLE) return work(fromText(text, path));
    const header = text.slice(0, text.indexOf("\n") + 1);
    if (/^# pack-refs with:.* sorted( |\n)/.test(header)) {
      return work(searchable(fd, size, header.length, path));
    }
    const rest = Buffer.allocUnsafe(size - got);
    let at = 0;
    while (at < rest.length) {
      const more = readSync(fd, rest, at, rest.length - at, got + at);
      if (more === 0) break;
      at += more;
    }
    text += rest.toString("latin1", 0, at);
    return work(fromText(text, path));
  } finally {
    closeSync(fd);
  }
}
