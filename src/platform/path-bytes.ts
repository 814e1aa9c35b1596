/**
 * Paths as bytes, for runtimes that differ in what they do with them.
 *
 * Git's paths are bytes; here they are byte strings (one char for each byte). Most are UTF-8 and reach
 * the file system as ordinary strings. Those that aren't can only be named by a Buffer, which Bun hands
 * on as it is and Deno silently turns into other names: there they are refused.
 */
import { Buffer, isUtf8 } from "node:buffer";
import { AgentqError } from "../errors.ts";

/** A path that the functions of node:fs take. */
export type FsPath = string | Buffer;

/** True where a Buffer reaches the file system unchanged. */
const BYTES_REACH_FILES = !("Deno" in globalThis) && process.platform !== "win32" &&
  process.platform !== "darwin";

/**
 * `directory` (an ordinary path) and `path` (a byte string, `/`-separated) as one path.
 * @throws `path-not-representable` where this runtime or system can't name that file
 */
export function fsPath(directory: string, path: string): FsPath {
  const below = fsBytes(path);
  if (typeof below === "string") return `${directory}/${below}`;
  return Buffer.concat([Buffer.from(`${directory}/`), below]);
}

/** A byte string (a relative path, the target of a link) as node:fs takes it. */
export function fsBytes(path: string): FsPath {
  if (/^[\x00-\x7f]*$/.test(path)) return path;
  const bytes = Buffer.from(path, "latin1");
  if (isUtf8(bytes)) return bytes.toString("utf8");
  if (BYTES_REACH_FILES) return bytes;
  throw new AgentqError("path-not-representable", `The file name ${escaped(path)} is not UTF-8.`, {
    details: { path: escaped(path) },
  });
}

/** A name that node:fs gave (a string, or its bytes where it isn't UTF-8) as a byte string. */
export function byteString(name: string | Buffer): string {
  if (typeof name !== "string") return name.toString("latin1");
  return /^[\x00-\x7f]*$/.test(name) ? name : Buffer.from(name, "utf8").toString("latin1");
}

function escaped(path: string): string {
  return JSON.stringify(path.replace(/[\x7f-\xff]/g, (c) => `<${c.charCodeAt(0).toString(16)}>`));
}
