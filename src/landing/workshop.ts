/**
 * What the lander asks of the machine it runs on: merging, checking, walking history. The protocol in
 * lander.ts knows nothing else of clones, worktrees and commands, and is tested without them.
 */
import type { ObjectReader, Oid } from "../git/types.ts";
import type { TicketEntry } from "./chain.ts";
import type { VerifyRecord } from "./messages.ts";

/** Why a ticket was not landed. */
export interface Refusal {
  readonly verdict: "refused";
  readonly reason: string;
  readonly files: readonly string[];
  readonly regions: readonly string[];
  readonly report: string;
  readonly verify?: VerifyRecord | null;
}

/** A commit that is ready to be verified and published. */
export interface ReadyMerge {
  readonly verdict: "ready";
  /** The deterministic merge, or the candidate itself where it contains the tip. */
  readonly commit: Oid;
  readonly tree: Oid;
  /** The merge base; null for a fast-forward or a branch that begins here. */
  readonly base: Oid | null;
  /** Holds the objects of `commit` that the origin lacks. */
  readonly objects: ObjectReader;
}

export interface Verified {
  readonly verdict: "verified";
  readonly report: string;
  readonly verify: VerifyRecord | null;
}

/** This lander doesn't run such a ticket; another may. */
export interface Left {
  readonly verdict: "left";
  readonly why: string;
}

export interface Workshop {
  /** True when `ancestor` is `commit` or reachable from it. */
  contains(commit: Oid, ancestor: Oid, signal: AbortSignal): Promise<boolean>;
  /** The branch's own rules at `tip`, and whether this lander may work on the ticket at all. */
  admit(ticket: TicketEntry, tip: Oid | null, signal: AbortSignal): Promise<null | Refusal | Left>;
  /** Merges and gates; the same inputs give the same commit on every machine. */
  merge(ticket: TicketEntry, tip: Oid | null, signal: AbortSignal): Promise<ReadyMerge | Refusal>;
  /** The commit `merge` makes, without judging it; null when it makes none. */
  mergedCommit(ticket: TicketEntry, tip: Oid, signal: AbortSignal): Promise<Oid | null>;
  /** A reader of what only the origin may hold yet: `commit` and all it reaches. */
  reading(commit: Oid, signal: AbortSignal): Promise<ObjectReader>;
  /** Parents of a commit of the branch. */
  parents(commit: Oid, signal: AbortSignal): Promise<readonly Oid[]>;
  /**
   * Runs the checks on exactly `merge.commit`; leaves the ticket where this machine can't run them.
   * `begin` is called before the first, and not where there are none.
   * Rejects with the signal's reason once aborted.
   */
  verify(
    ticket: TicketEntry,
    tip: Oid | null,
    merge: ReadyMerge,
    signal: AbortSignal,
    begin?: () => void,
  ): Promise<Verified | Refusal | Left>;
}
