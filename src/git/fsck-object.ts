/**
 * The shape of single objects: what `git fsck` calls an error in trees, commits and tags. Used where
 * objects come from strangers, and by whoever writes a tree's entries into a directory.
 */
import { asBuffer } from "./oid.ts";
import { compareTreeEntries, isTreeMode, parseTree } from "./tree.ts";
import type { ObjectType, Oid } from "./types.ts";

/** Characters that HFS+ ignores inside a name. */
const HFS_IGNORED = /[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g;

/**
 * Why a name (a byte string) must not be in a tree, or null. Refused are the empty name, `.`, `..`,
 * anything with `/` or NUL, and `.git` in every spelling that some file system takes for it: upper
 * case, NTFS short name and trailing dots, spaces or streams, HFS+ ignorable characters.
 */
export function checkTreeEntryName(name: string): string | null {
  if (name === "") return "an empty name";
  if (name === "." || name === "..") return `the name ${name}`;
  if (name.includes("/")) return "a name with a slash";
  if (name.includes("\0")) return "a name with a NUL";
  const plain = name.toLowerCase();
  if (plain === ".git") return "the name .git";
  if (/^(\.git|git~1)[ .]*(:.*)?$/s.test(plain)) return "a name that Windows takes for .git";
  // A backslash separates directories there.
  if (plain.split("\\").some((part) => /^(\.git|git~1)[ .]*(:.*)?$/s.test(part))) {
    return "a name that Windows takes for .git";
  }
  if (/[\x80-\xff]/.test(name)) {
    const text = new TextDecoder().decode(Uint8Array.from(name, (char) => char.charCodeAt(0)));
    if (text.replace(HFS_IGNORED, "").toLowerCase() === ".git") {
      return "a name that macOS takes for .git";
    }
  }
  return null;
}

/** What is wrong with an object's content, in a few words; null when its shape is sound. */
export function checkObjectShape(type: ObjectType, data: Uint8Array, oid?: Oid): string | null {
  switch (type) {
    case "blob":
      return null;
    case "tree":
      return checkTree(data, oid);
    case "commit":
      return checkHeaders(
        data,
        /^tree [0-9a-f]{40}\n(?:parent [0-9a-f]{40}\n)*author [^\n]*\ncommitter [^\n]*\n/,
      );
    case "tag":
      return checkHeaders(data, /^object [0-9a-f]{40}\ntype [a-z]+\ntag [^\n]+\n/);
  }
}

function checkHeaders(data: Uint8Array, shape: RegExp): string | null {
  const buffer = asBuffer(data);
  const blank = buffer.indexOf("\n\n");
  const headers = buffer.toString("latin1", 0, blank < 0 ? buffer.length : blank + 1);
  if (headers.includes("\0")) return "a NUL in its headers";
  return shape.test(headers) ? null : "malformed headers";
}

function checkTree(data: Uint8Array, oid?: Oid): string | null {
  let entries;
  try {
    entries = parseTree(data, oid);
  } catch {
    return "a malformed entry";
  }
  const names = new Set<string>();
  for (const [i, entry] of entries.entries()) {
    const problem = checkTreeEntryName(entry.path);
    if (problem) return problem;
    if (names.has(entry.path)) return "the same name twice";
    names.add(entry.path);
    const before = entries[i - 1];
    if (before && compareTreeEntries(before, entry) >= 0) return "entries out of order";
    if (/^0{40}$/.test(entry.oid)) return "an entry without an object";
    const known = [0o100644, 0o100755, 0o100664, 0o120000, 0o160000].includes(entry.mode);
    if (!isTreeMode(entry.mode) && !known) return "an unknown mode";
  }
  return null;
}
