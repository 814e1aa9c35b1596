/**
 * Questions about history: common ancestors, containment, counts.
 *
 * Walks take commits newest first from a queue, painting what each side reaches; they end when nothing
 * is left that could change the answer. Commit dates only decide the order, never the answer: clocks
 * lie, and a walk that trusted them would be wrong where they do.
 *
 * A shallow clone's boundary commits have no parents. `refs/replace` and `info/grafts` are not honoured:
 * what is merged and published must not depend on one clone's private view of history.
 */
import type { CommitInfo } from "./commit-graph.ts";
import { parseCommitLinks } from "./commit.ts";
import type { ObjectReader, Oid } from "./types.ts";

/** A reader that knows commits' parents and times without reading them (commit-graph, shallow boundary). */
export interface CommitReader extends ObjectReader {
  commitInfo?(oid: Oid): CommitInfo;
}

const ONE = 1;
const TWO = 2;
const BOTH = ONE | TWO;
/** Below a common ancestor already found. */
const STALE = 4;
const RESULT = 8;

interface Node {
  readonly oid: Oid;
  readonly parents: readonly Oid[];
  readonly time: number;
  readonly generation: number;
  flags: number;
  /** How often it stands in the queue. */
  queued: number;
}

/** Parents and time of a commit: from the reader's own knowledge, else by parsing it. */
export function commitInfo(reader: CommitReader, oid: Oid): CommitInfo {
  if (reader.commitInfo) return reader.commitInfo(oid);
  const { parents, time } = parseCommitLinks(reader.read(oid).data, oid);
  return { parents, time, generation: Infinity };
}

/** A binary heap, newest first; equals leave in the order they came, as in git. */
function createQueue() {
  const heap: Node[] = [];
  const order: number[] = [];
  let counter = 0;
  const before = (i: number, j: number): boolean => {
    const a = heap[i]!;
    const b = heap[j]!;
    // Infinity, for commits that no graph knows, sorts them first: they are newer than those it knows.
    if (a.generation !== b.generation) return a.generation > b.generation;
    if (a.time !== b.time) return a.time > b.time;
    return order[i]! < order[j]!;
  };
  const swap = (i: number, j: number) => {
    [heap[i], heap[j]] = [heap[j]!, heap[i]!];
    [order[i], order[j]] = [order[j]!, order[i]!];
  };
  return {
    peek: (): Node | undefined => heap[0],
    put(node: Node): void {
      let at = heap.push(node) - 1;
      order.push(counter++);
      while (at > 0) {
        const parent = (at - 1) >> 1;
        if (!before(at, parent)) break;
        swap(at, parent);
        at = parent;
      }
    },
    take(): Node | undefined {
      const top = heap[0];
      const last = heap.length - 1;
      if (last < 0) return undefined;
      swap(0, last);
      heap.pop();
      order.pop();
      for (let at = 0;;) {
        const left = 2 * at + 1;
        if (left >= last) break;
        const child = left + 1 < last && before(left + 1, left) ? left + 1 : left;
        if (!before(child, at)) break;
        swap(at, child);
        at = child;
      }
      return top;
    },
  };
}

/**
 * Paints what `one` and `twos` reach until only commits below common ancestors are waiting. `each` sees
 * every commit taken and may end the walk by returning true.
 */
function paint(
  reader: CommitReader,
  one: Oid,
  twos: readonly Oid[],
  each: (node: Node) => boolean | void,
  /** Asked about the next commit once only stale ones wait: whether to go on. */
  goOn: (next: Node) => boolean = () => false,
): Map<Oid, Node> {
  const nodes = new Map<Oid, Node>();
  const queue = createQueue();
  let active = 0; // waiting entries that are not stale

  const mark = (oid: Oid, flags: number) => {
    let node = nodes.get(oid);
    if (!node) {
      const { parents, time, generation } = commitInfo(reader, oid);
      node = { oid, parents, time, generation, flags: 0, queued: 0 };
      nodes.set(oid, node);
    } else if ((node.flags & flags) === flags) return;
    const wasActive = !(node.flags & STALE);
    node.flags |= flags;
    if (wasActive && node.flags & STALE) active -= node.queued;
    node.queued++;
    if (!(node.flags & STALE)) active++;
    queue.put(node);
  };

  mark(one, ONE);
  for (const two of twos) mark(two, TWO);
  for (let next = queue.peek(); next && (active > 0 || goOn(next)); next = queue.peek()) {
    const node = queue.take()!;
    node.queued--;
    if (!(node.flags & STALE)) active--;
    if (each(node)) break;
    let flags = node.flags & (BOTH | STALE);
    if (flags === BOTH) flags |= STALE;
    for (const parent of node.parents) mark(parent, flags);
  }
  return nodes;
}

/** Puts `node` behind those that are not older, as git orders lists of commits. */
function insertByDate(list: Node[], node: Node): void {
  let at = list.findIndex((other) => other.time < node.time);
  if (at < 0) at = list.length;
  list.splice(at, 0, node);
}

/**
 * All best common ancestors of two commits, exactly as `git merge-base --all` prints them, in its order.
 * Empty for histories that share nothing.
 * @throws `object-missing` when a commit in between is not here
 */
export function mergeBases(reader: CommitReader, a: Oid, b: Oid): Oid[] {
  if (a === b) return [a];
  const found: Node[] = [];
  paint(reader, a, [b], (node) => {
    if ((node.flags & (BOTH | STALE)) === BOTH && !(node.flags & RESULT)) {
      node.flags |= RESULT;
      insertByDate(found, node);
    }
  });
  const candidates: Node[] = [];
  for (const node of found) if (!(node.flags & STALE)) insertByDate(candidates, node);
  if (candidates.length <= 1) return candidates.map((node) => node.oid);
  const best: Node[] = [];
  for (const node of withoutAncestors(reader, candidates)) insertByDate(best, node);
  return best.map((node) => node.oid);
}

/** Drops every commit that another of the list contains. */
function withoutAncestors(reader: CommitReader, candidates: readonly Node[]): Node[] {
  return candidates.filter((node) => {
    const others = candidates.filter((other) => other !== node);
    let contained = false;
    paint(reader, node.oid, others.map((other) => other.oid), (taken) => {
      if (taken.oid === node.oid && taken.flags & TWO) contained = true;
      return contained;
    });
    return !contained;
  });
}

/**
 * True when `descendant` contains `ancestor` (or is it). Costs what was committed since, in either
 * direction, not what lies behind.
 */
export function isAncestor(reader: CommitReader, ancestor: Oid, descendant: Oid): boolean {
  if (ancestor === descendant) return true;
  let contained = false;
  paint(reader, ancestor, [descendant], (node) => {
    if (node.oid === ancestor && node.flags & TWO) contained = true;
    return contained;
  });
  return contained;
}

/** Commits that `include` reaches and `exclude` does not: `git rev-list --count exclude..include`. */
export function countBetween(reader: CommitReader, exclude: Oid | null, include: Oid): number {
  let count = 0;
  for (const _ of commitsBetween(reader, exclude, include)) count++;
  return count;
}

/** How many commits older than all found are still looked at, as many as git does. */
const SLOP = 5;

/**
 * The commits that `include` reaches and `exclude` does not, in no particular order. Where clocks lied
 * and no commit-graph says otherwise, there may be some too many, as with git rev-list; never too few.
 */
export function commitsBetween(reader: CommitReader, exclude: Oid | null, include: Oid): Oid[] {
  if (exclude === include) return [];
  let oldest = Infinity;
  let slop = SLOP;
  const nodes = paint(
    reader,
    include,
    exclude === null ? [] : [exclude],
    (node) => {
      if (!(node.flags & TWO)) oldest = Math.min(oldest, node.time);
    },
    // A stale commit not older than a found one may lead to it by a way that was not walked yet.
    (next) => {
      if (oldest === Infinity) return false;
      if (next.time >= oldest) slop = SLOP;
      else slop--;
      return slop > 0;
    },
  );
  // What a found commit's clock hid is painted now, as far as it was seen.
  const missed = [...nodes.values()].filter((node) => node.flags & TWO);
  for (let node = missed.pop(); node; node = missed.pop()) {
    for (const oid of node.parents) {
      const parent = nodes.get(oid);
      if (parent && !(parent.flags & TWO)) {
        parent.flags |= TWO;
        missed.push(parent);
      }
    }
  }
  return [...nodes.values()].filter((node) => !(node.flags & TWO)).map((node) => node.oid);
}
