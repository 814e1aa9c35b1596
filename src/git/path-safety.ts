/**
 * Which paths of a tree may be written into a work tree at all.
 *
 * A tree is made by whoever can push. A name in it must not lead out of the work tree (`..`), nor into
 * the repository's own directory under any of the names by which some file system knows it: `.GIT`,
 * `git~1` and `.git::$INDEX_ALLOCATION` on NTFS, `.g\u200cit` on HFS+. All of them are refused on every
 * system, so that a branch that is safe here is safe for everybody who pulls it.
 */
import { Buffer, isUtf8 } from "node:buffer";
import { AgentqError } from "../errors.ts";
import { quotePath } from "./path-quote.ts";
import { isSymlinkMode } from "./tree.ts";

/** Code points that HFS+ passes over when it compares names. */
const HFS_IGNORED = /[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g;

/** Names nobody can attack with: they don't begin with a dot or `gi`, and hold no odd characters. */
const PLAIN = /^(?![gG][iI])[A-Za-z0-9_+@-][A-Za-z0-9_.+@ -]*$/;

/**
 * Why one name of a tree must not be written, or null.
 * @param name a byte string
 * @param mode the entry's mode: a symbolic link is more dangerous than a file
 * @param platform whose file names have to be possible
 */
export function unsafeName(
  name: string,
  mode: number,
  platform: string = process.platform,
): string | null {
  if (platform !== "win32" && PLAIN.test(name)) return null;
  if (name === "") return "an empty name";
  if (name === "." || name === "..") return `the name ${name}`;
  if (/[/\0]/.test(name)) return "a name with a slash or NUL in it";
  // What NTFS would see as several names, when the tree is checked out there.
  for (const part of name.split("\\")) {
    if (isDotGit(part)) return "a name that stands for .git";
    if (isSymlinkMode(mode) && isDotGitModules(part)) return "a symbolic link as .gitmodules";
  }
  return platform === "win32" ? impossibleOnWindows(name) : null;
}

function isDotGit(name: string): boolean {
  return /^(?:\.git|git~1)[. ]*(?::|$)/i.test(name) || /^\.git$/i.test(withoutIgnored(name));
}

function isDotGitModules(name: string): boolean {
  return /^(?:\.gitmodules|gitmod~[1-4]|gi7eba~[1-9])[. ]*(?::|$)/i.test(name) ||
    /^\.gitmodules$/i.test(withoutIgnored(name));
}

function withoutIgnored(name: string): string {
  if (/^[\x00-\x7f]*$/.test(name)) return name;
  const bytes = Buffer.from(name, "latin1");
  return isUtf8(bytes) ? bytes.toString("utf8").replace(HFS_IGNORED, "") : name;
}

function impossibleOnWindows(name: string): string | null {
  if (/[\\<>:"|?*\x01-\x1f]/.test(name)) return "a name that Windows does not allow";
  if (/[. ]$/.test(name)) return "a name that ends in a dot or a space";
  return /^(?:con|prn|aux|nul|com[0-9]|lpt[0-9]|conin\$|conout\$)(?:$|[ .])/i.test(name)
    ? "a device name of Windows"
    : null;
}

/** Why a whole path must not be written, or null. */
export function unsafePath(path: string, mode: number, platform?: string): string | null {
  const names = path.split("/");
  for (let i = 0; i < names.length; i++) {
    const reason = unsafeName(names[i]!, i === names.length - 1 ? mode : 0o40000, platform);
    if (reason !== null) return reason;
  }
  return null;
}

/** The error for a path that is refused; the path appears escaped. */
export function unsafePathError(path: string, reason: string): AgentqError {
  return new AgentqError("unsafe-path", `The path ${quotePath(path)} has ${reason}.`, {
    details: { path: quotePath(path), reason },
  });
}

/**
 * Two paths that a file system without case would keep in one file, as a pair, or null.
 * Directories count: `A/x` and `a/y` would share one.
 * @param normalize the file system compares Unicode normalised (macOS)
 */
export function findCollision(
  paths: Iterable<string>,
  normalize: boolean,
): [string, string] | null {
  const seen = new Map<string, string>();
  for (const path of paths) {
    for (let end = path.indexOf("/");; end = path.indexOf("/", end + 1)) {
      const prefix = end < 0 ? path : path.slice(0, end);
      const key = foldName(prefix, normalize);
      const other = seen.get(key);
      if (other === undefined) seen.set(key, prefix);
      else if (other !== prefix) return [other, prefix];
      if (end < 0) break;
    }
  }
  return null;
}

function foldName(path: string, normalize: boolean): string {
  if (/^[\x00-\x7f]*$/.test(path)) return path.toLowerCase();
  const bytes = Buffer.from(path, "latin1");
  if (!isUtf8(bytes)) return path;
  const text = bytes.toString("utf8");
  return (normalize ? text.normalize("NFD").replace(HFS_IGNORED, "") : text).toUpperCase()
    .toLowerCase();
}
