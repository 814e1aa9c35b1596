/** Moving the versions of renamed files to one path, so that they can be merged there. */
import {
  type Entry,
  isRegular,
  KIND,
  NOTHING,
  OURS,
  sameVersion,
  THEIRS,
  type Version,
} from "./entry.ts";
import { mergeContent } from "./content.ts";
import { collectRenames, decideDirectoryRenames } from "./directory-renames.ts";
import { findRenames } from "./find-renames.ts";
import type { Pair } from "./rename-state.ts";
import { type MergeState, note, pathText } from "./state.ts";
import type { Steps } from "./steps.ts";

const DEFAULT_LIMIT = 7000;

/** Second step of merging trees. False when something about renames alone makes the merge a conflict. */
export function* applyRenames(state: MergeState): Steps<boolean> {
  const { options, renames } = state;
  const { sides } = renames;
  const possible = [OURS, THEIRS].some((side) =>
    sides[side]!.pairs.length > 0 && sides[side]!.sources.size > 0
  );
  if (!possible) return true;
  const limit = options.renameLimit && options.renameLimit > 0
    ? options.renameLimit
    : DEFAULT_LIMIT;
  const isBinary = (path: string): boolean | undefined => {
    const value = options.attributes?.(path).get("diff");
    return value === true ? false : value === false ? true : undefined;
  };
  for (const side of [OURS, THEIRS] as const) {
    yield* findRenames(state.db, renames, sides[side], limit, isBinary);
  }
  let clean = true;
  if (state.depth === 0 && options.directoryRenames !== false) {
    clean = decideDirectoryRenames(state);
  }
  const collected = collectRenames(state);
  clean = clean && collected.clean;
  clean = (yield* applyAll(state, collected.renames)) && clean;
  notePaired(state, collected.renames);
  return clean;
}

/** Remembers what is merged under the names that files were given, for whoever judges the outcome. */
function notePaired({ paths, renames }: MergeState, pairs: readonly Pair[]): void {
  const targets = new Set(pairs.map(({ two }) => two.path));
  for (const side of [OURS, THEIRS]) {
    for (const { two } of renames.sides[side]!.pairs) {
      // A directory's rename moves what was added in it.
      const entry = paths.get(two.path);
      if (entry && entry.origins[side] !== two.path) targets.add(two.path);
    }
  }
  for (const path of targets) {
    const entry = paths.get(path);
    if (!entry || renames.paired.has(path)) continue;
    const [base, ours, theirs] = entry.stages.map((version, i) =>
      entry.files & (1 << i) ? version : NOTHING
    ) as Entry["stages"];
    renames.paired.set(path, { base, ours, theirs });
  }
}

function* applyAll(state: MergeState, renames: readonly Pair[]): Steps<boolean> {
  let clean = true;
  for (let i = 0; i < renames.length; i++) {
    yield;
    const pair = renames[i]!;
    const old = state.paths.get(pair.one.path);
    if (!old || old.clean) continue;
    const next = renames[i + 1];
    if (next && next.one.path === pair.one.path) {
      clean = renamedTwice(state, pair.one.path, pair.two.path, next.two.path);
      i++;
    } else {
      renamedOnce(state, pair, old);
    }
  }
  return clean;
}

/** Both sides renamed the file: to the same place, or to two. */
function renamedTwice(
  state: MergeState,
  from: string,
  oursPath: string,
  theirsPath: string,
): boolean {
  const base = state.paths.get(from)!;
  const ours = state.paths.get(oursPath)!;
  const theirs = state.paths.get(theirsPath)!;
  if (oursPath === theirsPath) {
    ours.stages[0] = base.stages[0];
    ours.files |= 1;
    base.gone = true;
    base.clean = true;
    return true;
  }
  const merged = mergeContent(
    state,
    from,
    [base.stages[0], ours.stages[OURS], theirs.stages[THEIRS]],
    [from, oursPath, theirsPath],
    1 + 2 * state.depth,
  );
  const versions = {
    base: base.stages[0],
    ours: ours.stages[OURS],
    theirs: theirs.stages[THEIRS],
  };
  state.renames.paired.set(oursPath, { ...versions, twin: theirsPath });
  state.renames.paired.set(theirsPath, { ...versions, twin: oursPath });
  // Content that could not be merged at all stays as it is on either side.
  const unmerged = !merged.clean && sameVersion(merged.result, ours.stages[OURS]);
  ours.stages[OURS] = merged.result;
  if (!unmerged) theirs.stages[THEIRS] = merged.result;
  base.pathClash = ours.pathClash = theirs.pathClash = true;
  note(
    state,
    "rename/rename",
    [from, oursPath, theirsPath],
    `CONFLICT (rename/rename): ${pathText(from)} renamed to ${pathText(oursPath)} in ` +
      `${pathText(state.labels[OURS])} and to ${pathText(theirsPath)} in ${
        pathText(state.labels[THEIRS])
      }.`,
  );
  return merged.clean;
}

/** One side renamed the file; the other kept, changed or deleted it. */
function renamedOnce(state: MergeState, pair: Pair, old: Entry): void {
  const from = pair.one.path;
  const to = pair.two.path;
  const side = pair.side;
  const other = side === OURS ? THEIRS : OURS;
  const target = state.paths.get(to)!;
  const deleted = old.files === 1;
  const kept = old.stages[other];
  const typeChanged = !deleted && isRegular(kept.mode) !== isRegular(target.stages[side].mode);
  const collision = !typeChanged && (target.files & (1 << other)) !== 0;

  const noteDeleted = (): void => {
    target.pathClash = true;
    note(
      state,
      "rename/delete",
      [to, from],
      `CONFLICT (rename/delete): ${pathText(from)} renamed to ${pathText(to)} in ` +
        `${pathText(state.labels[side])}, but deleted in ${pathText(state.labels[other])}.`,
    );
  };

  if (collision && deleted) {
    noteDeleted();
  } else if (collision) {
    const origins: [string, string, string] = [from, from, from];
    origins[side] = to;
    const stages: [Version, Version, Version] = [old.stages[0], NOTHING, NOTHING];
    stages[side] = target.stages[side];
    stages[other] = kept;
    const sameKind = (stages[OURS].mode & KIND) === (stages[THEIRS].mode & KIND);
    // Nothing can be made of a link and a submodule: git fails an assertion here, we leave it unmerged.
    if (!sameKind) target.pathClash = true;
    const merged = sameKind
      ? mergeContent(state, from, stages, origins, 1 + 2 * state.depth)
      : { clean: false, result: stages[side] };
    target.stages[side] = merged.result;
    if (!merged.clean) {
      // The judge of the outcome must not take this merge's markers for the side's own text.
      const { [OURS]: ours, [THEIRS]: theirs } = target.stages;
      state.renames.paired.set(to, {
        base: NOTHING,
        ours: side === OURS ? stages[side] : ours,
        theirs: side === THEIRS ? stages[side] : theirs,
      });
      note(
        state,
        "rename/add",
        [to, from],
        `CONFLICT (rename involved in collision): rename of ${pathText(from)} -> ${
          pathText(to)
        } has content ` +
          "conflicts AND collides with another path; this may result in nested conflict markers.",
      );
    }
  } else {
    target.stages[0] = old.stages[0];
    target.files |= 1;
    target.origins[0] = from;
    if (typeChanged) {
      old.stages[0] = NOTHING;
      old.files &= 6;
    } else if (deleted) {
      noteDeleted();
    } else {
      target.stages[other] = kept;
      target.files |= 1 << other;
      target.origins[other] = from;
    }
  }
  if (!typeChanged) {
    old.gone = true;
    old.clean = true;
  }
}
