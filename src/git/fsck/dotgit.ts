/**
 * The names that some file system takes for `.git`, `.gitmodules` and their like (git's utf8.c, path.c).
 * Names are byte strings. Stricter by a hair than `path-safety.ts`, as git's fsck is than its checkout.
 */
import { Buffer } from "node:buffer";

/** Code points that HFS+ passes over when it compares names. */
const HFS_IGNORED = /[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/;

/** One special file: its name without the dot, and what NTFS shortens it to when that is taken. */
export interface DotFile {
  readonly name: string;
  readonly short: string;
}

export const GITMODULES: DotFile = { name: "gitmodules", short: "gi7eba" };
export const GITATTRIBUTES: DotFile = { name: "gitattributes", short: "gi7d29" };
export const GITIGNORE: DotFile = { name: "gitignore", short: "gi250a" };
export const MAILMAP: DotFile = { name: "mailmap", short: "maba30" };

export const isDotGit = (name: string): boolean => isHfs(name, "git") || isNtfsDotGit(name);

/** Also the part of a name behind a backslash can be one. */
export function isNtfsDotGit(name: string): boolean {
  return /^(?:\.git|git~1)[. ]*(?:$|[:/\\])/i.test(name);
}

export const isDotFile = (name: string, file: DotFile): boolean =>
  isHfs(name, file.name) || isNtfsDotFile(name, file);

export function isNtfsDotFile(name: string, { name: plain, short }: DotFile): boolean {
  const lower = name.toLowerCase();
  const rest = lower.startsWith(`.${plain}`)
    ? lower.slice(plain.length + 1)
    : lower.startsWith(`${plain.slice(0, 6)}~`) && /^[1-4]/.test(lower.slice(7))
    ? lower.slice(8)
    : afterShortName(lower, short);
  return rest !== null && /^[. ]*(?:$|:)/.test(rest);
}

/** NTFS falls back to a hash: `gi7eba~1`, up to `g~123456`, eight characters in all. */
function afterShortName(lower: string, short: string): string | null {
  const match = /^([a-z0-9]{0,6})~[1-9][0-9]*$/.exec(lower.slice(0, 8));
  if (lower.length < 8 || !match || !short.startsWith(match[1]!)) return null;
  return lower.slice(8);
}

function isHfs(name: string, wanted: string): boolean {
  if (/^[\x00-\x7f]*$/.test(name)) return new RegExp(`^\\.${wanted}(?:$|/)`, "i").test(name);
  const chars = hfsChars(name);
  const next = () => chars.next().value ?? "";
  for (const char of `.${wanted}`) {
    if (next().toLowerCase() !== char) return false;
  }
  const end = next();
  return end === "" || end === "/";
}

/** Characters that HFS+ sees, up to the first malformed one: for git a name ends there. */
function* hfsChars(name: string): Generator<string, undefined> {
  const valid =
    /[\x00-\x7f]|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|\xed[\x80-\x9f][\x80-\xbf]|\xef\xbf[\x80-\xbd]|\xef[\x80-\xbe][\x80-\xbf]|[\xe1-\xec\xee][\x80-\xbf]{2}|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}/y;
  for (let match = valid.exec(name); match; match = valid.exec(name)) {
    const char = Buffer.from(match[0], "latin1").toString("utf8");
    if (!HFS_IGNORED.test(char)) yield char;
  }
  return undefined;
}
