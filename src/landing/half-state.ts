/**
 * What an origin that stopped between two renames of one multi-ref update leaves behind, or a lander
 * that died before it could finish: the branch moved and not `done`, or `done` and not the branch.
 */
import type { Oid } from "../git/types.ts";
import type { TicketEntry } from "./chain.ts";
import type { HeldLock } from "./held-lock.ts";
import { corruptChain, NO_TIP } from "./messages.ts";
import type { Queue, Snapshot } from "./snapshot.ts";
import type { Workshop } from "./workshop.ts";

/**
 * The tip that `ticket` was landed on when the branch already is what landing it gives; null when it
 * isn't. Four kinds of evidence, and without any of them there is nothing to land:
 *
 * 1. the lock's newest entry says that its push published exactly this;
 * 2. the branch is the deterministic merge of its first parent and this ticket: nobody else makes it;
 * 3. the branch is the candidate, a holder that went quiet last saw it elsewhere, and the candidate
 *    contains that place: its fast-forward;
 * 4. the branch is the candidate, contains what was landed last, and wasn't there yet when the ticket was
 *    queued (of a ticket that doesn't say so: what was landed last is not the candidate). Whoever moved it
 *    there, a lander of another kind or a person, what was asked for has happened.
 */
export async function alreadyPublished(
  at: { readonly snapshot: Snapshot; readonly landed: Oid | null; readonly ticket: TicketEntry },
  held: HeldLock,
  workshop: Workshop,
  signal: AbortSignal,
): Promise<Oid | null> {
  const { ticket } = at;
  const { tip } = at.snapshot;
  if (tip === null || tip === at.landed) return null;
  const { published } = held.control();
  if (published?.ticket === ticket.message.ticket && published.landed === tip) return published.tip;

  const { candidate } = ticket.message;
  if (tip === candidate) {
    // Of a ticket that was cancelled the branch may have what it wants, but nobody landed it.
    const moved = held.control().cancelled.includes(ticket.message.ticket) ? null : movedFrom(at);
    for (const before of [held.interrupted(), moved]) {
      if (before === null || before === tip) continue;
      if (before === NO_TIP || await workshop.contains(tip, before, signal)) return before;
    }
    return null;
  }
  const parents = await workshop.parents(tip, signal);
  const first = parents[0];
  if (parents.length !== 2 || first === undefined || parents[1] !== candidate) return null;
  return await workshop.mergedCommit(ticket, first, signal) === tip ? first : null;
}

/** How far back, in commits of the branch's first parents, a publication is looked for that others have built on. */
const BURIED = 256;

/**
 * The publication of a ticket whose candidate the branch contains, where somebody pushed on top of it before it
 * was recorded: by the first three kinds of evidence of {@link alreadyPublished}, further down the branch. Null
 * when there is none.
 */
export async function buriedPublication(
  at: { readonly snapshot: Snapshot; readonly landed: Oid | null; readonly ticket: TicketEntry },
  held: HeldLock,
  workshop: Workshop,
  signal: AbortSignal,
): Promise<{ readonly tip: Oid; readonly landed: Oid } | null> {
  const { ticket } = at;
  const { published } = held.control();
  let commit = at.snapshot.tip;
  for (let n = 0; n < BURIED && commit !== null && commit !== at.landed; n++) {
    if (published?.ticket === ticket.message.ticket && published.landed === commit) {
      return { tip: published.tip, landed: commit };
    }
    if (commit === ticket.message.candidate) {
      const before = await forwardedFrom(commit, held, workshop, signal);
      return before === null ? null : { tip: before, landed: commit };
    }
    const [first, second, ...more] = await workshop.parents(commit, signal);
    if (first !== undefined && second === ticket.message.candidate && more.length === 0) {
      const made = await workshop.mergedCommit(ticket, first, signal);
      return made === commit ? { tip: first, landed: commit } : null;
    }
    commit = first ?? null;
  }
  return null;
}

/** Where a holder that went quiet last saw the branch, which `candidate` contains; null without such a holder. */
async function forwardedFrom(
  candidate: Oid,
  held: HeldLock,
  workshop: Workshop,
  signal: AbortSignal,
): Promise<Oid | null> {
  const before = held.interrupted();
  if (before === null || before === candidate) return null;
  return before === NO_TIP || await workshop.contains(candidate, before, signal) ? before : null;
}

/** Where the branch was before it came to the candidate of `ticket`; null where it may have been there always. */
function movedFrom(
  { snapshot, landed, ticket }: {
    readonly snapshot: Snapshot;
    readonly landed: Oid | null;
    readonly ticket: TicketEntry;
  },
): Oid | null {
  const seen = ticket.message.agentq?.tip;
  if (seen === snapshot.tip) return null;
  return landed ?? (seen === null ? NO_TIP : seen ?? null);
}

/**
 * Holds the result that the branch is about to follow to what every publication is: it answers the
 * ticket of its number, and its commit contains that ticket's candidate and the tip it was landed on.
 * A result written by hand must not move the branch backwards or to something that nobody queued.
 *
 * @throws `corrupt-chain`
 */
export async function assertPublication(
  queue: Queue,
  snapshot: Snapshot,
  landed: Oid,
  workshop: Workshop,
  signal: AbortSignal,
): Promise<void> {
  const { oid, message } = snapshot.done!;
  const ticket = await queue.chains.find("queue", snapshot.queue!, message.ticket, signal);
  const { candidate } = ticket.message;
  if (message.candidate !== candidate) {
    throw corruptChain(
      "done",
      oid,
      `is the result of ${message.candidate}, but ticket ${message.ticket} is for ${candidate}`,
    );
  }
  for (const part of message.tip === NO_TIP ? [candidate] : [message.tip, candidate]) {
    if (!await workshop.contains(landed, part, signal)) {
      throw corruptChain(
        "done",
        oid,
        `says that ${landed} was landed, which doesn't contain ${part}`,
      );
    }
  }
}
