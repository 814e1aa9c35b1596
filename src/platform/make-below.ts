/** Making directories below one that is there, and never that one. */
import { mkdirSync } from "node:fs";
import { dirname } from "node:path";

/**
 * Makes `path` and what is missing between it and `base`. A `base` that is gone (moved away, deleted, unmounted)
 * is not made anew: a directory that merely looks like it would take what is meant for it, and keep it from
 * coming back.
 * @param path `base`, or a path below it
 * @param base null: there never was one, and all that is missing is made
 * @returns the directories that are new, the uppermost first, where there is a base
 * @throws what the system throws; ENOENT where `base` is gone, or another process prunes what was made
 */
export function makeBelow(base: string | null, path: string, mode = 0o777): string[] {
  if (base === null) {
    mkdirSync(path, { recursive: true, mode });
    return [];
  }
  if (path.length <= base.length) return [];
  try {
    return make(path, mode);
  } catch (cause) {
    const above = dirname(path);
    if ((cause as { code?: string }).code !== "ENOENT" || above.length <= base.length) throw cause;
    return [...makeBelow(base, above, mode), ...make(path, mode)];
  }
}

function make(path: string, mode: number): string[] {
  try {
    mkdirSync(path, { mode });
    return [path];
  } catch (cause) {
    if ((cause as { code?: string }).code === "EEXIST") return [];
    throw cause;
  }
}
