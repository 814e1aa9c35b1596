/**
 * Commits as a graph: parents, time, tree; and the best common ancestors of two of them.
 *
 * Virtual commits (merges of merge bases) live in the graph only. Their ids cannot clash with real ones.
 */
import { parseCommitLinks } from "../git/commit.ts";
import { commitInfo, type CommitReader } from "../git/history.ts";
import type { Oid } from "../git/types.ts";

export interface GraphCommit {
  readonly oid: Oid;
  /** Committer time in seconds. */
  readonly time: number;
  readonly parentOids: readonly Oid[];
  /** The parents themselves, once they were asked for. */
  links: readonly GraphCommit[] | null;
  /** Marks of the walk numbered `walk`; those of an earlier one mean nothing. */
  walk: number;
  marks: number;
  /** How often it waits in the walk's queue. */
  waiting: number;
}

export interface CommitGraph {
  get(oid: Oid): GraphCommit;
  tree(oid: Oid): Oid;
  parents(commit: GraphCommit): readonly GraphCommit[];
  /** A commit that exists in this graph alone. */
  addVirtual(tree: Oid, parents: readonly Oid[]): Oid;
  /** A number for a walk, higher than every one before. */
  nextWalk(): number;
}

/** A graph that reads each commit once. `shallow` commits have no parents. */
export function commitGraph(db: CommitReader, shallow?: ReadonlySet<Oid>): CommitGraph {
  const commits = new Map<Oid, GraphCommit>();
  const trees = new Map<Oid, Oid>();
  let virtual = 0;
  let walks = 0;
  const add = (oid: Oid, parentOids: readonly Oid[], time: number): GraphCommit => {
    const commit = { oid, time, parentOids, links: null, walk: 0, marks: 0, waiting: 0 };
    commits.set(oid, commit);
    return commit;
  };
  const get = (oid: Oid): GraphCommit => {
    const known = commits.get(oid);
    if (known) return known;
    const { parents, time } = commitInfo(db, oid);
    return add(oid, shallow?.has(oid) ? [] : parents, time);
  };
  return {
    get,
    tree: (oid) => trees.get(oid) ?? parseCommitLinks(db.read(oid).data, oid).tree,
    parents: (commit) => commit.links ??= commit.parentOids.map(get),
    addVirtual(tree, parents) {
      const oid = `virtual-${++virtual}`;
      trees.set(oid, tree);
      add(oid, parents, Math.max(0, ...parents.map((parent) => get(parent).time)));
      return oid;
    },
    nextWalk: () => ++walks,
  };
}

const ONE = 1;
const OTHER = 2;
const STALE = 4;
const RESULT = 8;

/**
 * Paints the ancestors of `one` and of `others`, newest first, until every commit still to visit is known
 * to be behind a common ancestor. Gives the common ancestors met; some may be ancestors of others.
 * The marks stay on the commits until the next walk.
 */
function paintDown(
  graph: CommitGraph,
  one: GraphCommit,
  others: readonly GraphCommit[],
): { walk: number; found: GraphCommit[] } {
  const walk = graph.nextWalk();
  const queue = newestFirst();
  // Entries of the queue that aren't stale: without any, nothing new can be found.
  let lively = 0;
  const mark = (commit: GraphCommit, marks: number): void => {
    if (commit.walk !== walk) {
      commit.walk = walk;
      commit.marks = 0;
      commit.waiting = 0;
    }
    if (marks & STALE && !(commit.marks & STALE)) lively -= commit.waiting;
    commit.marks |= marks;
    commit.waiting++;
    if (!(commit.marks & STALE)) lively++;
    queue.push(commit);
  };
  mark(one, ONE);
  for (const other of others) mark(other, OTHER);
  const found: GraphCommit[] = [];
  while (lively > 0) {
    const commit = queue.pop()!;
    commit.waiting--;
    if (!(commit.marks & STALE)) lively--;
    let paint = commit.marks & (ONE | OTHER | STALE);
    if (paint === (ONE | OTHER)) {
      if (!(commit.marks & RESULT)) {
        commit.marks |= RESULT;
        insertByTime(found, commit);
      }
      paint |= STALE;
    }
    for (const parent of graph.parents(commit)) {
      if (parent.walk === walk && (parent.marks & paint) === paint) continue;
      mark(parent, paint);
    }
  }
  return { walk, found };
}

const marksOf = (commit: GraphCommit, walk: number): number =>
  commit.walk === walk ? commit.marks : 0;

/** After every commit that is as new or newer. */
function insertByTime(list: GraphCommit[], commit: GraphCommit): void {
  let at = 0;
  while (at < list.length && list[at]!.time >= commit.time) at++;
  list.splice(at, 0, commit);
}

/** A heap: newest commit first, first come first served among equals. */
function newestFirst(): { push(commit: GraphCommit): void; pop(): GraphCommit | undefined } {
  const heap: GraphCommit[] = [];
  const orders: number[] = [];
  let counter = 0;
  return {
    push(commit) {
      const order = counter++;
      let i = heap.length;
      heap.push(commit);
      orders.push(order);
      while (i > 0) {
        const above = (i - 1) >> 1;
        // Among equals the one that is there already came first.
        if (heap[above]!.time >= commit.time) break;
        heap[i] = heap[above]!;
        orders[i] = orders[above]!;
        i = above;
      }
      heap[i] = commit;
      orders[i] = order;
    },
    pop() {
      const top = heap[0];
      const last = heap.pop();
      const order = orders.pop();
      if (last === undefined || heap.length === 0) return last;
      let i = 0;
      for (;;) {
        let child = i * 2 + 1;
        if (child >= heap.length) break;
        const right = child + 1;
        if (
          right < heap.length &&
          (heap[right]!.time > heap[child]!.time ||
            (heap[right]!.time === heap[child]!.time && orders[right]! < orders[child]!))
        ) child = right;
        if (
          heap[child]!.time < last.time ||
          (heap[child]!.time === last.time && orders[child]! > order!)
        ) break;
        heap[i] = heap[child]!;
        orders[i] = orders[child]!;
        i = child;
      }
      heap[i] = last;
      orders[i] = order!;
      return top;
    },
  };
}

/** The best common ancestors of two commits: none of them an ancestor of another; newest first. */
export function mergeBases(graph: CommitGraph, one: Oid, two: Oid): Oid[] {
  if (one === two) return [one];
  const candidates: GraphCommit[] = [];
  for (const commit of paintDown(graph, graph.get(one), [graph.get(two)]).found) {
    if (!(commit.marks & STALE)) insertByTime(candidates, commit);
  }
  if (candidates.length <= 1) return candidates.map(({ oid }) => oid);
  const redundant = new Set<GraphCommit>();
  for (const commit of candidates) {
    if (redundant.has(commit)) continue;
    const others = candidates.filter((other) => other !== commit && !redundant.has(other));
    if (others.length === 0) continue;
    const { walk } = paintDown(graph, commit, others);
    if (marksOf(commit, walk) & OTHER) redundant.add(commit);
    for (const other of others) if (marksOf(other, walk) & ONE) redundant.add(other);
  }
  const best: GraphCommit[] = [];
  for (const commit of candidates) if (!redundant.has(commit)) insertByTime(best, commit);
  return best.map(({ oid }) => oid);
}

/** True when `ancestor` is `commit` or one of its ancestors. */
export function isAncestor(graph: CommitGraph, ancestor: Oid, commit: Oid): boolean {
  if (ancestor === commit) return true;
  const first = graph.get(ancestor);
  const { walk } = paintDown(graph, first, [graph.get(commit)]);
  return (marksOf(first, walk) & OTHER) !== 0;
}
