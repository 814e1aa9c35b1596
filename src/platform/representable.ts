/**
 * Paths whose bytes aren't UTF-8. The runtime hands on what it was given (the current directory, words,
 * variables) as text, with U+FFFD for each byte that fits nowhere: another name, under which another
 * directory would be used or made, and two would be one. The kernel still has the bytes.
 */
import { Buffer, isUtf8 } from "node:buffer";
import { readFileSync, readlinkSync } from "node:fs";
import { AgentqError } from "../errors.ts";

const REPLACED = "\ufffd";

/**
 * Throws `path-not-representable` where a part of `path` stands for bytes that aren't UTF-8. One that is
 * really called like that is let through, and so is any where nothing tells (no /proc).
 */
export function assertRepresentable(path: string): void {
  if (!path.includes(REPLACED)) return;
  const parts = new Set(path.split("/").filter((part) => part.includes(REPLACED)));
  for (const bytes of given()) {
    if (isUtf8(bytes)) continue;
    const shown = bytes.toString("utf8").split(/[/:=]/).find((part) => parts.has(part));
    if (shown === undefined) continue;
    throw new AgentqError(
      "path-not-representable",
      `the name ${escaped(bytes, shown)} in ${JSON.stringify(path)} is not UTF-8`,
      {
        hint:
          "Name a directory whose name, and those above it, are UTF-8 (--state, --store, --backend).",
        details: { path },
      },
    );
  }
}

/** What this process was given, as bytes. */
function* given(): Generator<Buffer> {
  try {
    yield readlinkSync("/proc/self/cwd", { encoding: "buffer" });
  } catch {
    // Not Linux, or no /proc.
  }
  for (const file of ["/proc/self/cmdline", "/proc/self/environ"]) {
    let all: Buffer;
    try {
      all = readFileSync(file);
    } catch {
      continue;
    }
    for (let from = 0; from < all.length;) {
      const end = all.indexOf(0, from);
      yield all.subarray(from, end < 0 ? all.length : end);
      from = end < 0 ? all.length : end + 1;
    }
  }
}

/** The part of these bytes that reads as `shown`, with the bytes that fit nowhere in hexadecimal. */
function escaped(bytes: Buffer, shown: string): string {
  const parts = bytes.toString("latin1").split(/[/:=]/);
  const part = parts.find((one) => Buffer.from(one, "latin1").toString("utf8") === shown) ?? shown;
  return JSON.stringify(part.replace(/[\x7f-\xff]/g, (c) => `<${c.charCodeAt(0).toString(16)}>`));
}
