/**
 * Third step of merging trees: deciding every path that is still open and writing the trees, deepest
 * directories first, so that it is known whether a directory still exists when a file wants its place.
 */
import { serializeTree, type TreeEntry } from "../git/tree.ts";
import type { Oid } from "../git/types.ts";
import { mergeContent } from "./content.ts";
import {
  BASE,
  baseName,
  copyEntry,
  type Entry,
  isLink,
  isRegular,
  isSubmodule,
  KIND,
  NOTHING,
  OURS,
  type Side,
  THEIRS,
} from "./entry.ts";
import type { Steps } from "./steps.ts";
import { type MergeState, note, pathText, uniquePath } from "./state.ts";

/** The entries of directories that are being put together, innermost last. */
interface OpenDirectory {
  readonly path: string;
  readonly entries: TreeEntry[];
}

/** Decides every path and gives the merged tree. */
export function* resolvePaths(state: MergeState): Steps<Oid> {
  const order = [...state.paths.keys()].map((path) => path + "/").sort();
  const open: OpenDirectory[] = [];
  for (let i = order.length - 1; i >= 0; i--) {
    yield;
    const path = order[i]!.slice(0, -1);
    const entry = state.paths.get(path)!;
    enter(state, open, entry.directory);
    const { entries } = open[open.length - 1]!;
    if (entry.clean) put(entries, path, entry);
    else decide(state, path, entry, entries);
  }
  while (open.length > 1) close(state, open);
  return state.db.write("tree", serializeTree(open[0]?.entries ?? []));
}

/** Makes `directory` the innermost open one, completing those that are left. */
function enter(state: MergeState, open: OpenDirectory[], directory: string): void {
  if (open.length === 0) open.push({ path: "", entries: [] });
  for (;;) {
    const { path } = open[open.length - 1]!;
    if (path === directory) return;
    if (path === "" || directory.startsWith(path + "/")) {
      open.push({ path: directory, entries: [] });
      return;
    }
    close(state, open);
  }
}

/** Writes the innermost directory's tree and notes it at the directory's own path. */
function close(state: MergeState, open: OpenDirectory[]): void {
  const { path, entries } = open.pop()!;
  const entry = state.paths.get(path)!;
  entry.gone = entries.length === 0;
  if (!entry.gone) {
    entry.result = { mode: 0o40000, oid: state.db.write("tree", serializeTree(entries)) };
  }
}

function put(entries: TreeEntry[], path: string, entry: Entry): void {
  if (entry.gone) return;
  entries.push({ mode: entry.result.mode, path: baseName(path), oid: entry.result.oid });
}

function decide(state: MergeState, path: string, entry: Entry, entries: TreeEntry[]): void {
  let fileSide: Side = OURS;
  if (entry.dirs !== 0) {
    put(entries, path, entry);
    if (entry.files === 0) return;
  }
  if (entry.typeClash && entry.result.mode === 0) {
    // Nothing is left of the directory: the file can have the path.
    entry.typeClash = false;
    entry.gone = false;
    keepFileStages(entry);
  } else if (entry.typeClash) {
    if (entry.files === 1) {
      entry.files = 0;
      return;
    }
    const file = copyEntry(entry);
    fileSide = entry.dirs & (1 << OURS) ? THEIRS : OURS;
    keepFileStages(file);
    file.gone = false;
    const old = path;
    path = uniquePath(state, path, fileSide);
    state.paths.set(path, file);
    note(
      state,
      "file/directory",
      [path, old],
      `CONFLICT (file/directory): directory in the way of ${pathText(old)} from ` +
        `${pathText(state.labels[fileSide])}; moving it to ${pathText(path)} instead.`,
    );
    entry.files = 0;
    entry = file;
  }

  const [, ours, theirs] = entry.stages;
  if (entry.matches !== 0) {
    takeUnmatched(entry);
  } else if (entry.files >= 6 && (ours.mode & KIND) !== (theirs.mode & KIND)) {
    path = decideTypes(state, path, entry, entries);
  } else if (entry.files >= 6) {
    decideContent(state, path, entry, fileSide);
  } else if (entry.files === 3 || entry.files === 5) {
    decideDeleted(state, path, entry);
  } else if (entry.files === 2 || entry.files === 4) {
    entry.result = entry.files === 4 ? theirs : ours;
    entry.clean = !entry.typeClash && !entry.pathClash;
  } else if (entry.files === 1) {
    entry.gone = true;
    entry.result = NOTHING;
    entry.clean = !entry.pathClash;
  }

  if (!entry.clean) state.conflicted.set(path, entry);
  put(entries, path, entry);
}

/** Forgets the directory sides of an entry. */
function keepFileStages(entry: Entry): void {
  entry.matches &= ~entry.dirs;
  entry.dirs = 0;
  entry.stages = entry.stages.map((version, i) =>
    entry.files & (1 << i) ? version : NOTHING
  ) as Entry["stages"];
}

/** Two sides are equal: the third one's version stands. */
function takeUnmatched(entry: Entry): void {
  entry.clean = !entry.typeClash && !entry.pathClash;
  if (entry.matches === 6) {
    entry.result = entry.stages[OURS];
    return;
  }
  const side = entry.matches === 3 ? THEIRS : OURS;
  entry.result = entry.stages[side];
  entry.gone = entry.result.mode === 0;
  if (entry.gone) entry.clean = true;
}

/** A file here and a link or submodule there: both are kept, a file moves aside. Gives the path that stays. */
function decideTypes(state: MergeState, path: string, entry: Entry, entries: TreeEntry[]): string {
  const [base, ours, theirs] = entry.stages;
  if (state.depth > 0) {
    entry.clean = false;
    entry.result = base;
    entry.gone = base.mode === 0;
    return path;
  }
  const moveOurs = isRegular(ours.mode) || !isRegular(theirs.mode);
  const moveTheirs = !isRegular(ours.mode);
  const oursPath = moveOurs ? uniquePath(state, path, OURS) : path;
  const theirsPath = moveTheirs ? uniquePath(state, path, THEIRS) : path;
  note(
    state,
    "distinct modes",
    [path, ...(moveOurs ? [oursPath] : []), ...(moveTheirs ? [theirsPath] : [])],
    `CONFLICT (distinct types): ${pathText(path)} had different types on each side; renamed ` +
      `${moveOurs && moveTheirs ? "both" : "one"} of them so each can be recorded somewhere.`,
  );
  entry.clean = false;
  const other = copyEntry(entry);
  other.result = theirs;
  other.stages[OURS] = NOTHING;
  other.files = 5;
  if ((theirs.mode & KIND) !== (base.mode & KIND)) {
    other.stages[BASE] = NOTHING;
    other.files = 4;
  }
  entry.result = ours;
  entry.stages[THEIRS] = NOTHING;
  entry.files = 3;
  if ((ours.mode & KIND) !== (base.mode & KIND)) {
    entry.stages[BASE] = NOTHING;
    entry.files = 2;
  }
  if (moveOurs) state.paths.set(oursPath, entry);
  state.paths.set(theirsPath, other);
  if (moveOurs && moveTheirs) state.paths.delete(path);
  state.conflicted.set(theirsPath, other);
  put(entries, theirsPath, other);
  return oursPath;
}

function decideContent(state: MergeState, path: string, entry: Entry, fileSide: Side): void {
  const merged = mergeContent(state, path, entry.stages, entry.origins, state.depth * 2);
  entry.clean = merged.clean && !entry.typeClash && !entry.pathClash;
  entry.result = merged.result;
  entry.gone = merged.result.mode === 0;
  if (merged.clean && entry.typeClash) {
    entry.files = 1 << fileSide;
    entry.stages[fileSide] = merged.result;
  }
  if (merged.clean) return;
  const mode = merged.result.mode;
  const type = isSubmodule(mode) ? "submodule" : entry.files === 6 ? "add/add" : "content";
  note(
    state,
    isLink(mode) && type === "content" ? "symlink" : type,
    [path],
    `CONFLICT (${type}): Merge conflict in ${pathText(path)}`,
  );
}

/** One side deleted the file; the other changed it, or renames brought it here. */
function decideDeleted(state: MergeState, path: string, entry: Entry): void {
  const side: Side = entry.files === 5 ? THEIRS : OURS;
  entry.result = entry.stages[state.depth > 0 ? BASE : side];
  entry.clean = false;
  if (state.options.renormalize && sameNormalized(state, path, entry, side)) {
    if (!entry.pathClash) {
      entry.gone = true;
      entry.clean = true;
      entry.typeClash = false;
    }
    return;
  }
  // A rename/delete of an unchanged file has been told about.
  if (entry.pathClash && entry.stages[BASE].oid === entry.stages[side].oid) return;
  const modified = pathText(state.labels[side]);
  const deleted = pathText(state.labels[3 - side]!);
  note(
    state,
    "modify/delete",
    [path],
    `CONFLICT (modify/delete): ${
      pathText(path)
    } deleted in ${deleted} and modified in ${modified}.  ` +
      `Version ${modified} of ${pathText(path)} left in tree.`,
  );
}

function sameNormalized(state: MergeState, path: string, entry: Entry, side: Side): boolean {
  const base = entry.stages[BASE];
  const other = entry.stages[side];
  if (base.mode !== other.mode) return false;
  if (base.oid === other.oid) return true;
  // The commits of submodules have no text, and aren't here.
  if (isSubmodule(base.mode)) return false;
  const normalize = state.options.renormalize!;
  const a = normalize(path, state.db.read(base.oid).data);
  const b = normalize(path, state.db.read(other.oid).data);
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}
