/** Object directories that lend their objects: `objects/info/alternates`, nested, and git's variable. */
import { readFileSync, realpathSync } from "node:fs";
import { resolve } from "node:path";
import { pathFromBytes, unquoteC } from "./quote.ts";

/** As deep as git follows. */
const MAX_DEPTH = 5;

function parse(text: string, separator: string): string[] {
  const found: string[] = [];
  for (const line of text.split(separator)) {
    if (line === "" || line.startsWith("#")) continue;
    found.push(pathFromBytes(line.startsWith('"') ? unquoteC(line) ?? line : line));
  }
  return found;
}

/**
 * The object directories that `objectsDir` borrows from, nearest first, without itself. Relative entries
 * count from the object directory that names them. Entries that do not exist are left out, as git
 * leaves them out; cycles and repeats are cut by real path.
 */
export function readAlternates(
  objectsDir: string,
  environment?: string,
): string[] {
  const seen = new Set<string>();
  const found: string[] = [];
  const real = (path: string) => {
    try {
      return realpathSync(path);
    } catch {
      return null;
    }
  };
  const own = real(objectsDir);
  if (own) seen.add(own);
  const add = (path: string, depth: number) => {
    const directory = real(path);
    if (directory === null || seen.has(directory)) return;
    seen.add(directory);
    found.push(directory);
    if (depth < MAX_DEPTH) follow(directory, depth + 1);
  };
  const follow = (directory: string, depth: number) => {
    let text: string;
    try {
      text = readFileSync(`${directory}/info/alternates`, "latin1");
    } catch {
      return;
    }
    for (const path of parse(text, "\n")) add(resolve(directory, path), depth);
  };
  if (environment) { for (const path of parse(environment, ":")) add(resolve(path), 0); }
  follow(objectsDir, 0);
  return found;
}
