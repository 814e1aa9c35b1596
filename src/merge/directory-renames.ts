/**
 * Directory renames: when one side moved a directory, files that the other side added to it (or moved
 * into it) follow. With `merge.directoryRenames=conflict`, the default, they follow and are left unmerged.
 */
import { directoryOf, type Entry, NOTHING, openEntry, OURS, type Side, THEIRS } from "./entry.ts";
import type { Pair, SideRenames } from "./rename-state.ts";
import { type MergeState, note, pathText } from "./state.ts";

/** New path → the paths that directory renames would put there. */
type Collisions = Map<string, { sources: string[]; reported: boolean }>;

/** Decides where each removed directory went; false when one went to several places equally. */
export function decideDirectoryRenames(state: MergeState): boolean {
  let clean = true;
  for (const side of [OURS, THEIRS] as const) {
    const own = state.renames.sides[side];
    for (const [from, targets] of own.directoryCounts) {
      let most = 0;
      let tied = 0;
      let best = "";
      for (const [to, count] of targets) {
        if (count === most) tied = most;
        else if (count > most) {
          most = count;
          best = to;
        }
      }
      if (most === 0) continue;
      if (tied === most) {
        clean = false;
        note(
          state,
          "directory rename",
          [from],
          `CONFLICT (directory rename split): Unclear where to rename ${
            pathText(from)
          } to; it was renamed ` +
            "to multiple other directories, with no destination getting a majority of the files.",
        );
      } else own.directoryRenames.set(from, best);
    }
  }
  const [, ours, theirs] = state.renames.sides;
  for (const from of [...ours.directoryRenames.keys()]) {
    if (theirs.directoryRenames.delete(from)) ours.directoryRenames.delete(from);
  }
  return clean;
}

/** The nearest directory above `path` that was renamed. */
function renamedDirectory(path: string, renames: ReadonlyMap<string, string>): string | undefined {
  for (let at = path.lastIndexOf("/"); at >= 0; at = at > 0 ? path.lastIndexOf("/", at - 1) : -1) {
    const directory = path.slice(0, at);
    if (renames.has(directory)) return directory;
  }
  return undefined;
}

function moved(path: string, from: string, to: string): string {
  return to === "" ? path.slice(from.length + 1) : to + path.slice(from.length);
}

export function isAdded(pair: Pair): boolean {
  return pair.one.mode === 0;
}

function findCollisions(pairs: readonly Pair[], renames: ReadonlyMap<string, string>): Collisions {
  const collisions: Collisions = new Map();
  if (renames.size === 0) return collisions;
  for (const pair of pairs) {
    if (!isAdded(pair) && !pair.renamed) continue;
    const from = renamedDirectory(pair.two.path, renames);
    if (from === undefined) continue;
    const path = moved(pair.two.path, from, renames.get(from)!);
    const known = collisions.get(path);
    if (known) known.sources.push(pair.two.path);
    else collisions.set(path, { sources: [pair.two.path], reported: false });
  }
  return collisions;
}

/**
 * The renames of both sides, those implied by directory renames included, in the order in which they are
 * processed. `clean` is false when a directory rename could not be followed.
 */
export function collectRenames(state: MergeState): { renames: Pair[]; clean: boolean } {
  const { sides } = state.renames;
  const collisions = [
    new Map(),
    findCollisions(sides[OURS].pairs, sides[THEIRS].directoryRenames),
    findCollisions(sides[THEIRS].pairs, sides[OURS].directoryRenames),
  ];
  let clean = true;
  const renames: Pair[] = [];
  for (const side of [OURS, THEIRS] as const) {
    for (const pair of sides[side].pairs) {
      if (!isAdded(pair) && !pair.renamed) continue;
      const followed = follow(state, pair, side, collisions, sides[3 - side]!, sides[side]);
      if (followed.blocked) clean = false;
      if (!pair.renamed && followed.path === undefined) continue;
      if (followed.path !== undefined) moveAdded(state, pair, followed.path);
      pair.side = side;
      renames.push(pair);
    }
  }
  renames.sort((a, b) => a.one.path < b.one.path ? -1 : a.one.path > b.one.path ? 1 : 0);
  return { renames, clean };
}

/** Where the other side's directory rename puts the file of `pair`, if anywhere. */
function follow(
  state: MergeState,
  pair: Pair,
  side: Side,
  collisions: readonly Collisions[],
  other: SideRenames,
  own: SideRenames,
): { path?: string; blocked?: boolean } {
  const path = pair.two.path;
  if (other.directoryRenames.size === 0) return {};
  if (collisions[3 - side]!.has(path)) return {};
  const from = renamedDirectory(path, other.directoryRenames);
  if (from === undefined) return {};
  const to = other.directoryRenames.get(from)!;
  if (own.directoryRenames.has(to)) {
    note(
      state,
      null,
      [from, path, to],
      `WARNING: Avoiding applying ${pathText(from)} -> ${pathText(to)} rename to ${
        pathText(path)
      }, because ` +
        `${pathText(to)} itself was renamed.`,
    );
    return {};
  }
  const target = moved(path, from, to);
  const collision = collisions[side]!.get(target)!;
  if (collision.reported) return { blocked: true };
  const list = [...collision.sources].sort().map(pathText).join(", ");
  if (inTheWay(state.paths.get(target), side)) {
    collision.reported = true;
    note(
      state,
      "directory rename",
      [target, ...collision.sources],
      `CONFLICT (implicit dir rename): Existing file/dir at ${
        pathText(target)
      } in the way of implicit ` +
        `directory rename(s) putting the following path(s) there: ${list}.`,
    );
    return { blocked: true };
  }
  if (collision.sources.length > 1) {
    collision.reported = true;
    note(
      state,
      "directory rename",
      [target, ...collision.sources],
      `CONFLICT (implicit dir rename): Cannot map more than one path to ${
        pathText(target)
      }; implicit ` +
        `directory renames tried to put these paths there: ${list}`,
    );
    return { blocked: true };
  }
  return { path: target };
}

function inTheWay(entry: Entry | undefined, side: Side): boolean {
  return entry !== undefined && (entry.clean || ((entry.files | entry.dirs) & (1 << side)) !== 0);
}

/** Moves a file that one side added (or renamed) to where the directory it stands in went. */
function moveAdded(state: MergeState, pair: Pair, target: string): void {
  const { paths } = state;
  const old = pair.two.path;
  let entry = paths.get(old)!;
  addDirectories(paths, target, entry.files);

  if (entry.dirs === 0) {
    paths.delete(old);
  } else {
    // The base has a directory at the old path, which is still needed for what is below it.
    const file = {
      ...entry,
      stages: [...entry.stages] as Entry["stages"],
      origins: [...entry.origins] as Entry["origins"],
      dirs: 0,
    };
    file.stages[0] = NOTHING;
    entry.files = 0;
    entry.clean = true;
    entry.stages = entry.stages.map((version, i) =>
      entry.dirs & (1 << i) ? version : NOTHING
    ) as Entry["stages"];
    entry = file;
  }

  const added = entry.files === 2 ? OURS : THEIRS;
  entry.directory = directoryOf(target);
  const existing = paths.get(target);
  if (!existing) {
    paths.set(target, entry);
  } else {
    existing.files |= entry.files;
    if (existing.dirs !== 0) existing.typeClash = true;
    existing.origins[added] = entry.origins[added];
    existing.stages[added] = entry.stages[added];
    entry = existing;
  }
  const here = state.labels[added];
  const there = state.labels[3 - added]!;
  const what = isAdded(pair)
    ? `${pathText(old)} added in ${pathText(here)}`
    : `${pathText(pair.one.path)} renamed to ${pathText(old)} in ${pathText(here)},`;
  if (state.options.directoryRenames === true) {
    note(
      state,
      null,
      [target, old],
      `Path updated: ${what} inside a directory that was renamed in ${
        pathText(there)
      }; moving it to ${pathText(target)}.`,
    );
  } else {
    entry.pathClash = true;
    note(
      state,
      "directory rename",
      [target, old],
      `CONFLICT (file location): ${what} inside a directory that was renamed in ${
        pathText(there)
      }, suggesting ` +
        `it should perhaps be moved to ${pathText(target)}.`,
    );
  }
  pair.two.path = target;
}

function addDirectories(paths: Map<string, Entry>, path: string, dirs: number): void {
  for (let dir = directoryOf(path); dir !== "" && !paths.has(dir); dir = directoryOf(dir)) {
    const entry = openEntry(dir, directoryOf(dir), [NOTHING, NOTHING, NOTHING], 0, dirs, 0);
    entry.gone = false;
    paths.set(dir, entry);
  }
}
