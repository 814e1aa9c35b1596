/**
 * Trees. Names are byte strings (one char for each byte), so that comparing them compares bytes, in
 * git's order, and nothing is lost that isn't UTF-8.
 */
import { Buffer } from "node:buffer";
import { AgentqError } from "../errors.ts";
import { asBuffer } from "./oid.ts";
import type { Oid } from "./types.ts";

/** The modes git writes. Old repositories hold others (`0o100664`): kept as they are read. */
export const MODE = {
  file: 0o100644,
  executable: 0o100755,
  symlink: 0o120000,
  gitlink: 0o160000,
  tree: 0o40000,
} as const;

const KIND = 0o170000;

export interface TreeEntry {
  readonly mode: number;
  /** The name in this tree: a byte string without `/`. */
  readonly path: string;
  readonly oid: Oid;
}

export const isTreeMode = (mode: number): boolean => (mode & KIND) === 0o40000;
export const isFileMode = (mode: number): boolean => (mode & KIND) === 0o100000;
export const isSymlinkMode = (mode: number): boolean => (mode & KIND) === 0o120000;
export const isGitlinkMode = (mode: number): boolean => (mode & KIND) === 0o160000;

function corrupt(oid: Oid | undefined, what: string): AgentqError {
  return new AgentqError("repository-corrupt", `Tree ${oid ?? "(unnamed)"} ${what}.`, {
    details: oid === undefined ? {} : { oid },
  });
}

/**
 * Parses a tree's content in its stored order. `oid` only names it in errors. Names such as `.git` or
 * `..` are passed on: checkout, which alone would be harmed by them, refuses them.
 * @throws `repository-corrupt` for a malformed mode, an empty name, one with `/`, a cut-off entry
 */
export function parseTree(content: Uint8Array, oid?: Oid): TreeEntry[] {
  const data = asBuffer(content);
  const entries: TreeEntry[] = [];
  let at = 0;
  while (at < data.length) {
    let mode = 0;
    let digits = 0;
    for (;; at++, digits++) {
      const byte = data[at];
      if (byte === 32 && digits > 0) break;
      if (byte === undefined || byte < 48 || byte > 55 || digits > 7) {
        throw corrupt(oid, "has a malformed mode");
      }
      mode = mode * 8 + byte - 48;
    }
    const nul = data.indexOf(0, ++at);
    if (nul < 0 || nul + 21 > data.length) throw corrupt(oid, "is cut off");
    const path = data.toString("latin1", at, nul);
    if (path === "" || path.includes("/")) throw corrupt(oid, "has an impossible name");
    entries.push({ mode, path, oid: data.toString("hex", nul + 1, nul + 21) });
    at = nul + 21;
  }
  return entries;
}

/** Git's order: bytes, a directory compared as if its name ended in `/`. */
export function compareTreeEntries(
  a: Pick<TreeEntry, "mode" | "path">,
  b: Pick<TreeEntry, "mode" | "path">,
): number {
  const left = isTreeMode(a.mode) ? a.path + "/" : a.path;
  const right = isTreeMode(b.mode) ? b.path + "/" : b.path;
  return left < right ? -1 : left > right ? 1 : 0;
}

/** The content of a tree with these entries, put in git's order. */
export function serializeTree(entries: readonly TreeEntry[]): Uint8Array {
  const sorted = [...entries].sort(compareTreeEntries);
  const names = new Set<string>();
  let size = 0;
  for (const { mode, path } of sorted) {
    if (names.has(path)) {
      throw new AgentqError("internal", `A tree would hold ${JSON.stringify(path)} twice.`);
    }
    names.add(path);
    if (path === "" || /[/\0]|[^\x00-\xff]/.test(path)) {
      throw new AgentqError("internal", `A tree would hold the name ${JSON.stringify(path)}.`);
    }
    size += mode.toString(8).length + path.length + 22;
  }
  const data = Buffer.allocUnsafe(size);
  let at = 0;
  for (const { mode, path, oid } of sorted) {
    at += data.write(`${mode.toString(8)} ${path}\0`, at, "latin1");
    if (data.write(oid, at, 20, "hex") !== 20) {
      throw new AgentqError("internal", `A tree would hold the object id ${JSON.stringify(oid)}.`);
    }
    at += 20;
  }
  return data;
}
