/**
 * Finding renames on one side: which deleted file became which added one.
 *
 * ```text
 *  exact content ─▶ same base name, 75% alike ─▶ best of all pairs, 50% alike
 * ```
 *
 * Each step leaves fewer candidates for the next. Deleted files whose new place can't change the result
 * take part in the first step only.
 */
import type { ObjectReader } from "../git/types.ts";
import { countDirectories } from "./directory-counts.ts";
import { baseName, isRegular } from "./entry.ts";
import type { Pair, RenameState, SideRenames } from "./rename-state.ts";
import { FULL_SCORE, RENAME_SCORE, type Similarity, similarity } from "./similarity.ts";
import type { Steps } from "./steps.ts";

const EMPTY_BLOB = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
const BASE_NAME_SCORE = RENAME_SCORE + (FULL_SCORE - RENAME_SCORE) / 2;
/** How many sources are remembered for each target. */
const CANDIDATES = 4;
/** How many sources of identical content are looked at. */
const IDENTICAL = 100;

/** Joins the pairs of one side into renames where there are any. */
export function* findRenames(
  db: ObjectReader,
  renames: RenameState,
  side: SideRenames,
  limit: number,
  isBinary: (path: string) => boolean | undefined,
): Steps<void> {
  if (side.pairs.length === 0 || side.sources.size === 0) return;
  side.directoryCounts = new Map();
  const targets: Pair[] = [];
  let sources: Pair[] = [];
  for (const pair of side.pairs) {
    if (pair.one.mode === 0) {
      if (pair.two.oid !== EMPTY_BLOB) targets.push(pair);
    } else if (pair.one.oid !== EMPTY_BLOB) sources.push(pair);
  }
  if (targets.length === 0 || sources.length === 0) return;

  findExact(sources, targets);
  sources = sources.filter(({ one }) => !one.used);
  const counts = countDirectories(side, targets.filter(({ renamed }) => renamed));
  const compare = similarity(db, isBinary);
  yield* findByBaseName(sources, targets, side, compare, counts);
  sources = sources.filter(({ one }) => !one.used && side.sources.has(one.path));
  sources = counts.dropCertain(sources);

  const open = targets.filter(({ renamed }) => !renamed);
  if (open.length > 0 && sources.length > 0) {
    if (open.length * sources.length > limit * limit) {
      renames.neededLimit = Math.max(renames.neededLimit, open.length, sources.length);
    } else {
      yield* findInexact(sources, open, compare, counts.renamed);
    }
  }
  counts.finish();
  side.pairs = side.pairs.filter((pair) => pair.two.mode !== 0 || !pair.one.used);
}

function record(target: Pair, source: Pair, score: number): void {
  source.one.used = true;
  target.one = source.one;
  target.renamed = true;
  target.score = score;
}

/** Same base name, as far as git's comparison from the end goes. */
const sameBaseName = (a: string, b: string): boolean => baseName(a) === baseName(b);

function findExact(sources: readonly Pair[], targets: readonly Pair[]): void {
  const byOid = new Map<string, Pair[]>();
  for (const source of sources) {
    const list = byOid.get(source.one.oid);
    if (list) list.push(source);
    else byOid.set(source.one.oid, [source]);
  }
  for (const target of targets) {
    let best: Pair | undefined;
    let bestScore = -1;
    let looked = 0;
    for (const source of byOid.get(target.two.oid) ?? []) {
      const { one } = source;
      if ((!isRegular(one.mode) || !isRegular(target.two.mode)) && one.mode !== target.two.mode) {
        continue;
      }
      if (one.used) continue;
      const score = sameBaseName(one.path, target.two.path) ? 2 : 1;
      if (score > bestScore) {
        best = source;
        bestScore = score;
        if (score === 2) break;
      }
      if (++looked === IDENTICAL) break;
    }
    if (best) record(target, best, FULL_SCORE);
  }
}

function* findByBaseName(
  sources: readonly Pair[],
  targets: readonly Pair[],
  side: SideRenames,
  compare: Similarity,
  counts: { renamed(from: string, to: string): void; guess(path: string): string | undefined },
): Steps<void> {
  const several = -1;
  const sourceNames = new Map<string, number>();
  sources.forEach(({ one }, i) => {
    const name = baseName(one.path);
    sourceNames.set(name, sourceNames.has(name) ? several : i);
  });
  const targetNames = new Map<string, number>();
  const targetPaths = new Map<string, number>();
  targets.forEach(({ two, renamed }, i) => {
    if (renamed) return;
    targetPaths.set(two.path, i);
    const name = baseName(two.path);
    targetNames.set(name, targetNames.has(name) ? several : i);
  });
  for (const [i, source] of sources.entries()) {
    if (!side.sources.has(source.one.path)) continue;
    const name = baseName(source.one.path);
    let index = targetNames.get(name);
    if (index === undefined) continue;
    if (sourceNames.get(name) !== i || index === several) {
      // Not the only one of that name: look where its directory seems to have gone.
      const directory = counts.guess(source.one.path);
      if (directory === undefined) continue;
      index = targetPaths.get(`${directory}/${name}`);
      if (index === undefined) continue;
    }
    const target = targets[index]!;
    if (target.renamed) continue;
    yield;
    const score = compare.score(source.one, target.two, BASE_NAME_SCORE);
    if (score < BASE_NAME_SCORE) continue;
    record(target, source, score);
    counts.renamed(source.one.path, target.two.path);
  }
}

interface Candidate {
  readonly source: Pair | null;
  readonly target: Pair | null;
  readonly score: number;
  readonly name: number;
}

const NO_CANDIDATE: Candidate = { source: null, target: null, score: 0, name: 0 };

/** Best first; empty places last. */
function compareCandidates(a: Candidate, b: Candidate): number {
  if (!a.target) return b.target ? 1 : 0;
  if (!b.target) return -1;
  return a.score === b.score ? b.name - a.name : b.score - a.score;
}

function* findInexact(
  sources: readonly Pair[],
  targets: readonly Pair[],
  compare: Similarity,
  renamed: (from: string, to: string) => void,
): Steps<void> {
  const all: Candidate[] = [];
  for (const target of targets) {
    const best: Candidate[] = new Array(CANDIDATES).fill(NO_CANDIDATE);
    for (const source of sources) {
      yield;
      const candidate = {
        source,
        target,
        score: compare.score(source.one, target.two, RENAME_SCORE),
        name: sameBaseName(source.one.path, target.two.path) ? 1 : 0,
      };
      let worst = 0;
      for (let i = 1; i < CANDIDATES; i++) {
        if (compareCandidates(best[i]!, best[worst]!) > 0) worst = i;
      }
      if (compareCandidates(best[worst]!, candidate) > 0) best[worst] = candidate;
    }
    all.push(...best);
  }
  all.sort(compareCandidates);
  for (const { source, target, score } of all) {
    if (!source || !target || score < RENAME_SCORE) break;
    if (target.renamed || source.one.used) continue;
    record(target, source, score);
    renamed(source.one.path, target.two.path);
  }
}
