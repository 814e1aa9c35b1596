/** What in a directory is a v1 queue's, by what v1 itself leaves there; what other programs keep is nobody's message. */
import { type Dirent, lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { errnoOf, ioError } from "../platform/durable.ts";
import { nodeFiles } from "../platform/files.ts";
import { FILE_MODE } from "./layout.ts";
import { FAILED, isWrittenByV1, MANIFEST, TEMPORARY } from "./v1-marks.ts";

const MESSAGE = /\.(?:json|processing|delivered)$/;
/** What fs-safe keeps in a queue for itself. */
const OWN = /^\.fs-safe-/;

export interface V1Contents {
  /** It was a queue before: a message of v1's lies there, its lock, or a private directory of dead letters. */
  readonly isQueue: boolean;
  /** The names of its messages' files. */
  readonly messages: readonly string[];
  /** A name of what v1 hasn't left there, a hidden one only where there is no other; or null. */
  readonly foreign: string | null;
}

/**
 * Looks into a directory, which may be missing, and changes nothing. Where only messages lie, all of them are
 * the queue's, once one of them has v1's permissions; beside other files, only what v1 itself has written.
 */
export function v1Contents(directory: string): V1Contents {
  const entries = list(directory);
  const byV1 = (name: string) => isWrittenByV1(nodeFiles, join(directory, name));
  const candidates: string[] = [];
  const foreign: string[] = [];
  let own = false;
  for (const entry of entries) {
    const { name } = entry;
    if (OWN.test(name)) own = true;
    else if (TEMPORARY.test(name)) continue;
    else if (entry.isDirectory()) {
      if (name === FAILED && modeOf(join(directory, name), 0o077) === 0) own = true;
      if (name.startsWith(".")) foreign.push(name);
    } else if (!MESSAGE.test(name) || name.startsWith(".")) foreign.push(name);
    else if (MANIFEST.test(name) && !byV1(name)) foreign.push(name);
    else candidates.push(name);
  }
  const messages = foreign.length === 0 ? candidates : candidates.filter(byV1);
  const isQueue = own ||
    (foreign.length > 0
      ? messages.length > 0
      : messages.some((name) => isPrivateFile(join(directory, name))));
  const strange = isQueue ? foreign : [...foreign, ...candidates];
  return {
    isQueue,
    messages,
    foreign: strange.find((name) => !name.startsWith(".")) ?? strange[0] ?? null,
  };
}

function list(directory: string): Dirent[] {
  try {
    return readdirSync(directory, { withFileTypes: true });
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return [];
    throw ioError("list", directory, error);
  }
}

/** Those permissions that the mask has, or null where nothing is there. */
function modeOf(path: string, mask: number): number | null {
  if (!nodeFiles.hasModes) return 0;
  const stat = lstatSync(path, { throwIfNoEntry: false });
  return stat === undefined ? null : stat.mode & mask;
}

function isPrivateFile(path: string): boolean {
  const stat = lstatSync(path, { throwIfNoEntry: false });
  return stat !== undefined && stat.isFile() &&
    (!nodeFiles.hasModes || (stat.mode & 0o777) === FILE_MODE);
}
