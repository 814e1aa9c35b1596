/**
 * Which objects a receiver lacks: all that `wants` reach and `haves` don't.
 *
 * Commits are walked newest first, painted from both sides, until no commit is left that only the
 * wants reach. Clock skew can make the walk stop painting too early; that sends a commit more, never
 * one less. Trees are compared with the same path of the parents' trees, so an unchanged directory is
 * neither read nor sent, however large it is.
 */
import { AgentqError, isAgentqError } from "../errors.ts";
import { parseCommitLinks } from "./commit.ts";
import { asBuffer } from "./oid.ts";
import { isGitlinkMode, isTreeMode, parseTree, type TreeEntry } from "./tree.ts";
import {
  EMPTY_TREE,
  type ObjectReader,
  type ObjectType,
  type Oid,
  type RawObject,
} from "./types.ts";

/** One object to send. `base` is what stood at the same path before: a likely delta base. */
export interface Enumerated {
  readonly oid: Oid;
  readonly type: ObjectType;
  readonly base?: Oid;
}

interface Node {
  readonly oid: Oid;
  readonly tree: Oid;
  readonly parents: readonly Oid[];
  readonly time: number;
  boundary: boolean;
}

/** Commits painted this long after the last interesting one, against clocks that ran backwards. */
const SLOP = 16;

/** Whoever is to be sent objects. A shallow clone holds its haves, but not what lies behind them. */
export interface Receiver {
  has(oid: Oid): boolean;
}

const EVERYTHING: Receiver = { has: () => true };

export interface NewCommits {
  readonly commits: readonly Node[];
  readonly tags: readonly Oid[];
  /** Trees and blobs among the wants. */
  readonly others: readonly Oid[];
  /** The tree of a commit that the walk has met. */
  treeOf(commit: Oid): Oid | undefined;
}

/**
 * The commits that `wants` reach and `haves` don't, parents before children, and the annotated tags
 * among the wants. Haves that the reader lacks bound nothing and are ignored.
 * @throws `object-missing` when a commit to be sent is not there (a shallow or damaged source)
 */
export function newCommits(
  objects: ObjectReader,
  wants: readonly Oid[],
  haves: readonly Oid[],
  receiver: Receiver = EVERYTHING,
): NewCommits {
  const nodes = new Map<Oid, Node>();
  const heap = new NewestFirst();
  const tags: Oid[] = [];
  const others: Oid[] = [];
  let interesting = 0;

  function add(oid: Oid, boundary: boolean, optional: boolean): void {
    const known = nodes.get(oid);
    if (known) {
      if (boundary && !known.boundary) paint(known);
      return;
    }
    let content: RawObject;
    try {
      content = objects.read(oid);
    } catch (error) {
      if (optional && isAgentqError(error, "object-missing")) return;
      throw error;
    }
    if (content.type === "tag") {
      if (!boundary) tags.push(oid);
      add(tagTarget(content.data, oid), boundary, optional);
      return;
    }
    if (content.type !== "commit") {
      if (!boundary) others.push(oid);
      return;
    }
    const node: Node = { oid, ...parseCommitLinks(content.data, oid), boundary };
    nodes.set(oid, node);
    heap.push(node);
    if (!boundary) interesting++;
  }

  /** A commit turned out to be on the receiver's side: so is all that was reached through it. */
  function paint(first: Node): void {
    const stack = [first];
    for (let node = stack.pop(); node; node = stack.pop()) {
      if (node.boundary) continue;
      node.boundary = true;
      if (heap.has(node)) interesting--;
      for (const parent of node.parents) {
        const known = nodes.get(parent);
        if (known && !known.boundary) stack.push(known);
      }
    }
  }

  const given = new Set(haves);
  for (const have of haves) add(have, true, true);
  for (const want of wants) add(want, false, false);
  let slop = SLOP;
  let oldest = Infinity;
  const order: Node[] = [];
  while (heap.size > 0 && (interesting > 0 || (slop-- > 0 && heap.newest()! >= oldest))) {
    const node = heap.pop();
    if (node.boundary) {
      // A commit of a queue's chain: its history is as long as the queue, what it names is near.
      const chain = node.tree === EMPTY_TREE && given.has(node.oid);
      if (node.tree === EMPTY_TREE && !chain) continue;
      for (const parent of node.parents.slice(chain ? 1 : 0)) {
        if (receiver.has(parent)) add(parent, true, true);
      }
    } else {
      interesting--;
      oldest = Math.min(oldest, node.time);
      order.push(node);
      for (const parent of node.parents) add(parent, false, false);
    }
    if (interesting > 0) slop = SLOP;
  }
  return {
    commits: parentsFirst(order.filter((node) => !node.boundary)),
    tags,
    others,
    treeOf: (commit) => nodes.get(commit)?.tree,
  };
}

/**
 * The objects to send, in an order in which everything stands behind what it refers to: whoever
 * stores them one by one never holds a commit without its history and content.
 */
export function* enumerate(
  objects: ObjectReader,
  wants: readonly Oid[],
  haves: readonly Oid[],
  receiver: Receiver = EVERYTHING,
): Generator<Enumerated, void, undefined> {
  const { commits, tags, others, treeOf } = newCommits(objects, wants, haves, receiver);
  const sent = new Set<Oid>();
  for (const commit of commits) {
    const before: Oid[] = [];
    for (const parent of commit.parents) {
      const tree = treeOf(parent);
      if (tree !== undefined) before.push(tree);
    }
    yield* newInTree(objects, commit.tree, before, sent);
    sent.add(commit.oid);
    yield { oid: commit.oid, type: "commit" };
  }
  for (const oid of others) {
    const { type } = objects.stat(oid);
    if (type === "tree") yield* newInTree(objects, oid, [], sent);
    else if (!sent.has(oid)) yield { oid, type };
    sent.add(oid);
  }
  for (const oid of tags.toReversed()) yield { oid, type: "tag" };
}

/** What `tree` holds and none of `before` holds at the same path; the deepest first. */
function* newInTree(
  objects: ObjectReader,
  tree: Oid,
  before: readonly Oid[],
  sent: Set<Oid>,
): Generator<Enumerated, void, undefined> {
  if (sent.has(tree) || before.includes(tree)) return;
  sent.add(tree);
  const old = new Map<string, TreeEntry[]>();
  for (const oid of before) {
    for (const entry of readTree(objects, oid, true)) {
      const same = old.get(entry.path);
      if (same) same.push(entry);
      else old.set(entry.path, [entry]);
    }
  }
  for (const entry of readTree(objects, tree, false)) {
    if (isGitlinkMode(entry.mode)) continue;
    const was = old.get(entry.path) ?? [];
    if (was.some((one) => one.oid === entry.oid)) continue;
    if (isTreeMode(entry.mode)) {
      const trees = was.filter((one) => isTreeMode(one.mode)).map((one) => one.oid);
      yield* newInTree(objects, entry.oid, trees, sent);
    } else if (!sent.has(entry.oid)) {
      sent.add(entry.oid);
      const base = was.find((one) => !isTreeMode(one.mode) && !isGitlinkMode(one.mode))?.oid;
      yield { oid: entry.oid, type: "blob", ...(base ? { base } : {}) };
    }
  }
  yield { oid: tree, type: "tree", ...(before[0] ? { base: before[0] } : {}) };
}

/** @param optional a tree of the receiver's side, which a partial or shallow source may lack */
function readTree(objects: ObjectReader, oid: Oid, optional: boolean): TreeEntry[] {
  if (oid === EMPTY_TREE) return [];
  const content = optional ? readOrNull(objects, oid) : objects.read(oid);
  if (content === null) return [];
  if (content.type !== "tree") {
    throw new AgentqError("repository-corrupt", `Object ${oid} is a ${content.type}, not a tree.`, {
      details: { oid },
    });
  }
  return parseTree(content.data, oid);
}

function readOrNull(objects: ObjectReader, oid: Oid): RawObject | null {
  try {
    return objects.read(oid);
  } catch (error) {
    if (isAgentqError(error, "object-missing")) return null;
    throw error;
  }
}

function tagTarget(data: Uint8Array, oid: Oid): Oid {
  const target = /^object ([0-9a-f]{40})\n/.exec(asBuffer(data).toString("latin1", 0, 48))?.[1];
  if (target) return target;
  throw new AgentqError("repository-corrupt", `Tag ${oid} names no object.`, { details: { oid } });
}

/** Parents before children, otherwise oldest first. */
function parentsFirst(newestFirst: readonly Node[]): Node[] {
  const left = new Map(newestFirst.map((node) => [node.oid, node]));
  const sorted: Node[] = [];
  for (const start of [...newestFirst].reverse()) {
    const stack = left.has(start.oid) ? [start] : [];
    while (stack.length > 0) {
      const node = stack.at(-1)!;
      const waiting = node.parents.map((parent) => left.get(parent)).filter((one) =>
        one && one !== node
      );
      if (!left.has(node.oid)) stack.pop();
      else if (waiting.length === 0) {
        left.delete(node.oid);
        sorted.push(node);
        stack.pop();
      } else stack.push(...waiting as Node[]);
    }
  }
  return sorted;
}

/** A binary heap of commits by committer time. */
class NewestFirst {
  readonly #heap: Node[] = [];
  readonly #inside = new Set<Node>();

  get size(): number {
    return this.#heap.length;
  }

  has(node: Node): boolean {
    return this.#inside.has(node);
  }

  newest(): number | undefined {
    return this.#heap[0]?.time;
  }

  push(node: Node): void {
    this.#inside.add(node);
    const heap = this.#heap;
    let at = heap.push(node) - 1;
    while (at > 0) {
      const up = (at - 1) >> 1;
      if (heap[up]!.time >= node.time) break;
      heap[at] = heap[up]!;
      at = up;
    }
    heap[at] = node;
  }

  pop(): Node {
    const heap = this.#heap;
    const top = heap[0]!;
    const last = heap.pop()!;
    this.#inside.delete(top);
    if (heap.length > 0) {
      let at = 0;
      for (;;) {
        let child = at * 2 + 1;
        if (child >= heap.length) break;
        if (child + 1 < heap.length && heap[child + 1]!.time > heap[child]!.time) child++;
        if (heap[child]!.time <= last.time) break;
        heap[at] = heap[child]!;
        at = child;
      }
      heap[at] = last;
    }
    return top;
  }
}
