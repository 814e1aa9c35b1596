/**
 * Trees as git's fsck sees them. They are taken apart here once more, as `parseTree` refuses what git
 * only tells of.
 */
import { asBuffer } from "../oid.ts";
import { isSymlinkMode, isTreeMode } from "../tree.ts";
import type { Oid } from "../types.ts";
import {
  GITATTRIBUTES,
  GITIGNORE,
  GITMODULES,
  isDotFile,
  isDotGit,
  isNtfsDotFile,
  isNtfsDotGit,
  MAILMAP,
} from "./dotgit.ts";
import type { MessageId, Report } from "./messages.ts";

export interface RawEntry {
  readonly mode: number;
  /** A byte string. */
  readonly name: string;
  readonly oid: Oid;
  readonly zeroPadded: boolean;
}

/** Objects that are checked as what their name makes of them, however they came to be there. */
export interface SpecialFiles {
  readonly gitmodules: Set<Oid>;
  readonly gitattributes: Set<Oid>;
}

const MODES = [0o100644, 0o100755, 0o120000, 0o040000, 0o160000];
/** Names without these can't be special; nearly all are plain. */
const SUSPECT = /^\.|^[gGmM][iIaA~]|^[gGmM]~|[\\\x80-\xff]/;
/** What git refuses since 2.43. */
const LONGEST_NAME = 4096;

/** The entries as they stand, or null when this is no tree. */
export function rawEntries(content: Uint8Array): RawEntry[] | null {
  const data = asBuffer(content);
  const entries: RawEntry[] = [];
  for (let at = 0; at < data.length;) {
    const space = data.indexOf(32, at);
    const nul = space < 0 ? -1 : data.indexOf(0, space);
    const mode = data.toString("latin1", at, Math.max(space, at));
    // An empty name is no name to git either.
    if (nul <= space + 1 || nul + 21 > data.length || !/^[0-7]+$/.test(mode)) return null;
    const name = data.toString("latin1", space + 1, nul);
    const oid = data.toString("hex", nul + 1, nul + 21);
    entries.push({ mode: parseInt(mode, 8), name, oid, zeroPadded: mode.startsWith("0") });
    at = nul + 21;
  }
  return entries;
}

/** Notes the special files of a tree and tells of its faults. @throws `Fault` by way of `report` */
export function checkTree(content: Uint8Array, report: Report, special: SpecialFiles): void {
  const entries = rawEntries(content);
  if (entries === null) return report("badTree", "entries that can't be read");
  const faults = new Map<MessageId, string>();
  for (const entry of entries) {
    const { mode, name, oid } = entry;
    if (/^0+$/.test(oid)) faults.set("nullSha1", "an entry without an object");
    if (name.includes("/")) faults.set("fullPathname", "a name with a slash");
    if (entry.zeroPadded) faults.set("zeroPaddedFilemode", "a mode that begins with 0");
    if (name.length > LONGEST_NAME) faults.set("largePathname", "a name that is too long");
    // Git lets 0100664 be only where it isn't strict, and a receiver is.
    if (!MODES.includes(mode)) faults.set("badFilemode", "an unknown mode");
    if (SUSPECT.test(name)) checkName(name, mode, oid, report, special, faults);
  }
  checkOrder(entries, faults);
  for (const [id, what] of faults) report(id, what);
}

function checkName(
  name: string,
  mode: number,
  oid: Oid,
  report: Report,
  special: SpecialFiles,
  faults: Map<MessageId, string>,
): void {
  if (name === ".") faults.set("hasDot", "the name .");
  if (name === "..") faults.set("hasDotdot", "the name ..");
  const parts = name.split("\\").slice(1).map((_, i) => name.split("\\").slice(i + 1).join("\\"));
  if (isDotGit(name) || parts.some(isNtfsDotGit)) {
    faults.set("hasDotgit", "a name that some system takes for .git");
  }
  const link = isSymlinkMode(mode);
  if (isDotFile(name, GITMODULES) || parts.some((part) => isNtfsDotFile(part, GITMODULES))) {
    if (link) report("gitmodulesSymlink", "a symbolic link as .gitmodules");
    else special.gitmodules.add(oid);
  }
  if (isDotFile(name, GITATTRIBUTES)) {
    if (link) report("gitattributesSymlink", "a symbolic link as .gitattributes");
    else special.gitattributes.add(oid);
  }
  if (!link) return;
  if (isDotFile(name, GITIGNORE)) report("gitignoreSymlink", "a symbolic link as .gitignore");
  if (isDotFile(name, MAILMAP)) report("mailmapSymlink", "a symbolic link as .mailmap");
}

function checkOrder(entries: readonly RawEntry[], faults: Map<MessageId, string>): void {
  // Files that a directory of the same name may follow, with others between them.
  const candidates: string[] = [];
  for (let i = 1; i < entries.length; i++) {
    const before = entries[i - 1]!;
    const entry = entries[i]!;
    const order = compare(before, entry, candidates);
    if (order === "same") faults.set("duplicateEntries", "the same name twice");
    if (order === "unordered") faults.set("treeNotSorted", "entries out of order");
  }
}

const belowSlash = (char: string) => char !== "" && char < "/";

/** Git's verify_ordered, which finds fewer doubles than a set of all names would. */
function compare(
  first: RawEntry,
  second: RawEntry,
  candidates: string[],
): "ordered" | "unordered" | "same" {
  const length = Math.min(first.name.length, second.name.length);
  const [start1, start2] = [first.name.slice(0, length), second.name.slice(0, length)];
  if (start1 !== start2) return start1 < start2 ? "ordered" : "unordered";
  let c1 = first.name.charAt(length);
  let c2 = second.name.charAt(length);
  if (c1 === "" && c2 === "") return "same";
  if (c1 === "" && isTreeMode(first.mode)) c1 = "/";
  if (c2 === "" && isTreeMode(second.mode)) c2 = "/";
  if (c1 === "" && belowSlash(c2)) candidates.push(first.name);
  else if (c2 === "/" && belowSlash(c1)) {
    for (let name = candidates.pop(); name !== undefined; name = candidates.pop()) {
      if (!second.name.startsWith(name)) continue;
      const next = second.name.charAt(name.length);
      if (next === "") return "same";
      if (belowSlash(next)) {
        candidates.push(name);
        break;
      }
    }
  }
  return c1 < c2 ? "ordered" : "unordered";
}
