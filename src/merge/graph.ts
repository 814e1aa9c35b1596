/**
 * Commits as a graph: parents, time, tree; and the best common ancestors of two of them.
 *
 * Virtual commits (merges of merge bases) live in the graph only. Their ids cannot clash with real ones.
 */
import { parseCommitLinks } from "../git/commit.ts";
import type { ObjectReader, Oid } from "../git/types.ts";

export interface GraphCommit {
  readonly oid: Oid;
  readonly tree: Oid;
  readonly parents: readonly Oid[];
  /** Committer time in seconds. */
  readonly time: number;
}

export interface CommitGraph {
  get(oid: Oid): GraphCommit;
  /** A commit that exists in this graph alone. */
  addVirtual(tree: Oid, parents: readonly Oid[]): Oid;
}

/** A graph that parses each commit once. `shallow` commits have no parents. */
export function commitGraph(db: ObjectReader, shallow?: ReadonlySet<Oid>): CommitGraph {
  const commits = new Map<Oid, GraphCommit>();
  let virtual = 0;
  const get = (oid: Oid): GraphCommit => {
    let commit = commits.get(oid);
    if (!commit) {
      const { tree, parents, time } = parseCommitLinks(db.read(oid).data, oid);
      commit = { oid, tree, parents: shallow?.has(oid) ? [] : parents, time };
      commits.set(oid, commit);
    }
    return commit;
  };
  return {
    get,
    addVirtual(tree, parents) {
      const oid = `virtual-${++virtual}`;
      let time = 0;
      for (const parent of parents) time = Math.max(time, get(parent).time);
      commits.set(oid, { oid, tree, parents, time });
      return oid;
    },
  };
}

const OURS = 1;
const THEIRS = 2;
const STALE = 4;
const RESULT = 8;

/**
 * Paints the ancestors of `one` and of `others` until every commit still to visit is known to be behind a
 * common ancestor. Gives the common ancestors met, newest first; some may be ancestors of others.
 */
function paintDown(graph: CommitGraph, one: Oid, others: readonly Oid[]): {
  found: Oid[];
  flags: Map<Oid, number>;
} {
  const flags = new Map<Oid, number>();
  const queue = newestFirst();
  let lively = 0;
  // The queue holds a commit once for every time it was painted; `pending` counts entries that matter.
  const push = (oid: Oid): void => {
    queue.push(graph.get(oid));
  };
  flags.set(one, OURS);
  push(one);
  for (const other of others) {
    flags.set(other, (flags.get(other) ?? 0) | THEIRS);
    push(other);
  }
  const found: GraphCommit[] = [];
  for (;;) {
    // Only stale commits left: nothing new can be found.
    lively = 0;
    for (const commit of queue.items()) {
      if (!(flags.get(commit.oid)! & STALE)) {
        lively++;
        break;
      }
    }
    if (lively === 0) break;
    const commit = queue.pop()!;
    let flag = flags.get(commit.oid)!;
    let paint = flag & (OURS | THEIRS | STALE);
    if (paint === (OURS | THEIRS)) {
      if (!(flag & RESULT)) {
        flag |= RESULT;
        flags.set(commit.oid, flag);
        insertByTime(found, commit);
      }
      paint |= STALE;
    }
    for (const parent of commit.parents) {
      const had = flags.get(parent) ?? 0;
      if ((had & paint) === paint) continue;
      flags.set(parent, had | paint);
      push(parent);
    }
  }
  return { found: found.filter((c) => !(flags.get(c.oid)! & STALE)).map((c) => c.oid), flags };
}

/** After every commit that is as new or newer. */
function insertByTime(list: GraphCommit[], commit: GraphCommit): void {
  let at = 0;
  while (at < list.length && list[at]!.time >= commit.time) at++;
  list.splice(at, 0, commit);
}

/** A heap: newest commit first, first come first served among equals. */
function newestFirst() {
  const heap: { commit: GraphCommit; order: number }[] = [];
  let counter = 0;
  const before = (a: number, b: number): boolean => {
    const x = heap[a]!, y = heap[b]!;
    return x.commit.time !== y.commit.time
      ? x.commit.time > y.commit.time
      : x.order < y.order;
  };
  const swap = (a: number, b: number): void => {
    [heap[a], heap[b]] = [heap[b]!, heap[a]!];
  };
  return {
    push(commit: GraphCommit): void {
      heap.push({ commit, order: counter++ });
      for (let i = heap.length - 1; i > 0;) {
        const parent = (i - 1) >> 1;
        if (!before(i, parent)) break;
        swap(i, parent);
        i = parent;
      }
    },
    pop(): GraphCommit | undefined {
      const top = heap[0];
      const last = heap.pop();
      if (!top || !last) return undefined;
      if (heap.length > 0) {
        heap[0] = last;
        for (let i = 0;;) {
          const left = i * 2 + 1;
          if (left >= heap.length) break;
          const child = left + 1 < heap.length && before(left + 1, left) ? left + 1 : left;
          if (!before(child, i)) break;
          swap(i, child);
          i = child;
        }
      }
      return top.commit;
    },
    *items(): Iterable<GraphCommit> {
      for (const item of heap) yield item.commit;
    },
  };
}

/** The best common ancestors of two commits: none of them an ancestor of another; newest first. */
export function mergeBases(graph: CommitGraph, one: Oid, two: Oid): Oid[] {
  if (one === two) return [one];
  const { found } = paintDown(graph, one, [two]);
  if (found.length <= 1) return found;
  const redundant = new Set<Oid>();
  for (const oid of found) {
    if (redundant.has(oid)) continue;
    const others = found.filter((other) => other !== oid && !redundant.has(other));
    if (others.length === 0) continue;
    const { flags } = paintDown(graph, oid, others);
    if ((flags.get(oid) ?? 0) & THEIRS) redundant.add(oid);
    for (const other of others) if ((flags.get(other) ?? 0) & OURS) redundant.add(other);
  }
  const kept: GraphCommit[] = [];
  for (const oid of found) if (!redundant.has(oid)) insertByTime(kept, graph.get(oid));
  return kept.map((commit) => commit.oid);
}

/** True when `ancestor` is `commit` or one of its ancestors. */
export function isAncestor(graph: CommitGraph, ancestor: Oid, commit: Oid): boolean {
  if (ancestor === commit) return true;
  const { flags } = paintDown(graph, ancestor, [commit]);
  return ((flags.get(ancestor) ?? 0) & THEIRS) !== 0;
}
