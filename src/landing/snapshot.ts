/**
 * The queue at one moment: what one advertisement of the origin said, and the messages of the heads in
 * it. Every decision is made on one snapshot; nothing is ever concluded from two readings.
 */
import { AgentqError } from "../errors.ts";
import type { Oid, Origin } from "../git/types.ts";
import { shellWord } from "../store/shell-word.ts";
import {
  type ChainReader,
  createChainReader,
  type LockEntry,
  numberOf,
  type ResultEntry,
  type TicketEntry,
} from "./chain.ts";
import type { EntryCache } from "./entry-cache.ts";
import { corruptChain } from "./messages.ts";
import { assertNoCollision, type QueueNames, queueNames } from "./names.ts";

/** One landing queue: an origin, a branch of it, and where its chains live. */
export interface Queue {
  readonly origin: Origin;
  readonly names: QueueNames;
  readonly chains: ChainReader;
  /** What whoever runs this calls the origin, for commands in hints: a remote's name, or its url without secrets. */
  readonly remote?: string;
  /** What an agentq command in a hint needs to find this queue and no other: `--branch` and `--namespace`, or "". */
  readonly options?: string;
  /** The branch is the origin's HEAD, whether it was named or not. */
  readonly isDefault?: boolean;
}

/** Where queues are unless somebody says otherwise. */
const NAMESPACE = "refs/weave";

export interface Snapshot {
  /** Where the branch is; null when it doesn't exist (yet). */
  readonly tip: Oid | null;
  readonly queueHead: Oid | null;
  readonly doneHead: Oid | null;
  readonly lockHead: Oid | null;
  /** Messages of the heads; null for a chain that doesn't exist or holds its genesis only. */
  readonly queue: TicketEntry | null;
  readonly done: ResultEntry | null;
  readonly lock: LockEntry | null;
  /** The number of the next ticket to land: one after `done`'s head. */
  readonly next: number;
  /** Tickets without a result: last ticket − last result. */
  readonly unacked: number;
}

/**
 * Opens the queue of `branch`, or of the branch that the origin's HEAD names (else `main`), and reads
 * its first snapshot: one advertisement when `guess` is right about HEAD.
 */
export async function openQueue(
  origin: Origin,
  options: {
    namespace: string;
    branch: string | null;
    guess?: string | null;
    remote?: string;
    /** Entries that need not be read from the origin. */
    kept?: EntryCache;
    signal?: AbortSignal;
  },
): Promise<{ queue: Queue; snapshot: Snapshot }> {
  const { namespace, signal } = options;
  const chains = createChainReader(origin, options.kept);
  let branch = options.branch ?? options.guess ?? "main";
  for (let attempt = 0;; attempt++) {
    const names = queueNames(namespace, branch);
    const advertised = await origin.refs(names.prefixes, signal);
    const head = advertised.head?.startsWith("refs/heads/")
      ? advertised.head.slice("refs/heads/".length)
      : "main";
    if (options.branch === null && head !== branch && attempt < 3) {
      branch = head;
      continue;
    }
    const { remote } = options;
    const queue: Queue = {
      origin,
      names,
      chains,
      options: [
        ...(options.branch !== null && branch !== head ? ["--branch", shellWord(branch)] : []),
        ...(namespace === NAMESPACE ? [] : ["--namespace", shellWord(namespace)]),
      ].map((word) => ` ${word}`).join(""),
      ...(remote !== undefined && { remote }),
      isDefault: branch === head,
    };
    const snapshot = await interpretOrReread(queue, advertised.refs, signal);
    if (snapshot.tip === null && branch.startsWith("-")) {
      // Git makes no such branch, so neither do we; more likely a flag went astray.
      throw new AgentqError(
        "ref-name-invalid",
        `the origin has no branch ${
          JSON.stringify(branch)
        }, and none is made whose name begins with a dash`,
      );
    }
    return { queue, snapshot };
  }
}

/** Reads the queue as it is now, from one advertisement. */
export async function readSnapshot(queue: Queue, signal?: AbortSignal): Promise<Snapshot> {
  const { refs } = await queue.origin.refs(queue.names.prefixes, signal);
  return await interpretOrReread(queue, refs, signal);
}

/** An advertisement is made ref by ref: one that was overtaken half-way can be out of step. */
async function interpretOrReread(
  queue: Queue,
  refs: ReadonlyMap<string, Oid>,
  signal?: AbortSignal,
): Promise<Snapshot> {
  for (let attempt = 0;; attempt++) {
    try {
      return await interpret(queue, refs, signal);
    } catch (error) {
      if (!(error instanceof AgentqError && error.details?.outOfStep) || attempt >= 3) throw error;
      refs = (await queue.origin.refs(queue.names.prefixes, signal)).refs;
    }
  }
}

async function interpret(
  queue: Queue,
  refs: ReadonlyMap<string, Oid>,
  signal?: AbortSignal,
): Promise<Snapshot> {
  const { names, chains } = queue;
  assertNoCollision(names, refs);
  const queueHead = refs.get(names.queue) ?? null;
  const doneHead = refs.get(names.done) ?? null;
  const lockHead = refs.get(names.lock) ?? null;
  const heads = await chains.readHeads({
    ...(queueHead && { queue: queueHead }),
    ...(doneHead && { done: doneHead }),
    ...(lockHead && { lock: lockHead }),
  }, signal);
  // A head that doesn't continue its own chain is believed by nobody. Read once: entries are kept.
  await Promise.all([
    heads.queue && chains.before("queue", heads.queue, signal),
    heads.done && chains.before("done", heads.done, signal),
  ]);
  const unacked = numberOf(heads.queue) - numberOf(heads.done);
  if (unacked < 0) {
    const error = corruptChain(
      "done",
      doneHead!,
      `has a result for ticket ${numberOf(heads.done)}, the queue ends at ${numberOf(heads.queue)}`,
    );
    throw new AgentqError("corrupt-chain", error.message, {
      details: { ...error.details, outOfStep: true },
    });
  }
  return {
    tip: refs.get(names.branch) ?? null,
    queueHead,
    doneHead,
    lockHead,
    ...heads,
    next: numberOf(heads.done) + 1,
    unacked,
  };
}

/** The error for a number that no ticket has. */
export function unknownTicket(ticket: number, snapshot: Snapshot): AgentqError {
  const newest = numberOf(snapshot.queue);
  return new AgentqError(
    "ticket-unknown",
    newest < 0
      ? `there is no ticket ${ticket}: nothing was ever submitted to this queue`
      : `there is no ticket ${ticket}: the newest is ${newest}`,
    { details: { ticket, newest } },
  );
}
