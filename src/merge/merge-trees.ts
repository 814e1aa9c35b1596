/** Three-way merge of trees: collect, follow renames, resolve. */
import type { ObjectDatabase, Oid } from "../git/types.ts";
import { applyRenames } from "./apply-renames.ts";
import { collectPaths } from "./collect.ts";
import { namingAllMissing } from "./missing.ts";
import type { PairedVersions } from "./rename-state.ts";
import { createState, type MergeContext, type MergeState, pathText } from "./state.ts";
import type { Conflict, ConflictStage, ConflictType, MergeOptions } from "./types.ts";
import { resolvePaths } from "./resolve.ts";
import { atOnce, type Steps } from "./steps.ts";

export interface TreeMerge {
  readonly clean: boolean;
  readonly tree: Oid;
  readonly conflicts: readonly Conflict[];
  readonly stages: readonly ConflictStage[];
  readonly messages: readonly string[];
  readonly paired: ReadonlyMap<string, PairedVersions>;
}

export function createContext(db: ObjectDatabase, options: MergeOptions): MergeContext {
  return { db, options, regions: new Map(), mergedBases: new Map() };
}

/** Merges three trees; labels are byte strings. `depth` counts merges of merge bases. */
export function* mergeThree(
  context: MergeContext,
  depth: number,
  labels: readonly [base: string, ours: string, theirs: string],
  trees: readonly [base: Oid, ours: Oid, theirs: Oid],
): Steps<TreeMerge> {
  const state = createState(context, depth, labels);
  try {
    collectPaths(state, trees);
    const clean = yield* applyRenames(state);
    const tree = yield* resolvePaths(state);
    return {
      clean: clean && state.conflicted.size === 0,
      tree,
      paired: state.renames.paired,
      ...(depth === 0 ? report(state) : { conflicts: [], stages: [], messages: [] }),
    };
  } catch (error) {
    throw namingAllMissing(state, error);
  }
}

function report(state: MergeState): Pick<TreeMerge, "conflicts" | "stages" | "messages"> {
  const types = new Map<string, { type: ConflictType; text: string }>();
  for (const { type, paths, text } of state.notes) {
    if (type === null) continue;
    for (const path of paths) if (!types.has(path)) types.set(path, { type, text });
  }
  const conflicts: Conflict[] = [];
  const stages: ConflictStage[] = [];
  for (const path of [...state.conflicted.keys()].sort()) {
    const entry = state.conflicted.get(path)!;
    const told = types.get(path);
    const regions = entry.gone ? [] : state.regions.get(entry.result.oid) ?? [];
    conflicts.push({
      path,
      type: told?.type ?? "content",
      regions,
      message: told?.text ?? `CONFLICT: ${pathText(path)} could not be merged.`,
    });
    entry.stages.forEach(({ mode, oid }, i) => {
      if (entry.files & (1 << i)) stages.push({ path, stage: (i + 1) as 1 | 2 | 3, mode, oid });
    });
  }
  const messages = state.notes
    .map((item, i) => ({ ...item, i }))
    .sort((a, b) => a.paths[0]! < b.paths[0]! ? -1 : a.paths[0]! > b.paths[0]! ? 1 : a.i - b.i)
    .map(({ text }) => text);
  const limit = state.renames.neededLimit;
  if (limit > 0) {
    messages.push(
      "Renames were looked for by identical content and by base name only, because there were too many " +
        `candidates; merge.renameLimit=${limit} would look for all of them.`,
    );
  }
  return { conflicts, stages, messages };
}

/** Merges trees that have no history: what `ours` and `theirs` made of `base`. */
export function mergeTrees(
  db: ObjectDatabase,
  base: Oid,
  ours: Oid,
  theirs: Oid,
  options: MergeOptions & { baseLabel?: string } = {},
): TreeMerge {
  const labels = options.labels ?? { ours: "ours", theirs: "theirs" };
  const bytes = [options.baseLabel ?? "base", labels.ours, labels.theirs].map((label) =>
    Buffer.from(label, "utf8").toString("latin1")
  ) as [string, string, string];
  return atOnce(mergeThree(createContext(db, options), 0, bytes, [base, ours, theirs]));
}
