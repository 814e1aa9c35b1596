/**
 * The one push that publishes: the branch, leased on the tip that was merged and verified, `done`,
 * leased on its head, and a lock entry, leased on the lock's head. A holder that lost any of the three
 * publishes nothing.
 */
import type { ObjectReader, Oid, RefUpdate } from "../git/types.ts";
import type { TicketEntry } from "./chain.ts";
import { chainCommit } from "./chain-commit.ts";
import { type Control, settled } from "./control.ts";
import { genesisOf } from "./enqueue.ts";
import { faultOf } from "./faults.ts";
import type { LanderOptions } from "./lander-options.ts";
import type { HeldLock } from "./lock.ts";
import { listsAfter } from "./lists.ts";
import { NO_TIP, type Result } from "./messages.ts";
import { chainHolds, pushOnce } from "./push.ts";
import { resultMessage, type Verdict } from "./result.ts";
import { type Queue, readSnapshot, type Snapshot } from "./snapshot.ts";
import type { ReadyMerge } from "./workshop.ts";

/** Moves the branch to where `done` says it is, fenced by the lock like every publication. */
export async function rollForward(
  queue: Queue,
  held: HeldLock,
  what: { readonly snapshot: Snapshot; readonly landed: Oid; readonly objects: ObjectReader },
): Promise<"won" | "lost" | "unknown"> {
  const { snapshot, landed, objects } = what;
  return await held.exclusive(async () => {
    const control = held.control();
    // This push too may be applied by halves: only what comes after it says that it was seen whole.
    const lock = held.renewal(control);
    const outcome = await pushOnce(queue, {
      updates: [
        { ref: queue.names.branch, old: snapshot.tip, new: landed },
        { ref: queue.names.lock, old: held.head(), new: lock.oid },
      ],
      commits: [lock],
      objects,
      remoteHas: [landed, snapshot.doneHead!],
    });
    if (outcome === "won") {
      await held.renewed(lock, { ...control, confirmed: snapshot.done!.message.ticket });
    }
    return outcome;
  });
}

export interface Publication {
  readonly snapshot: Snapshot;
  readonly ticket: TicketEntry;
  readonly verdict: Verdict;
  readonly lastLanded: Oid | null;
  readonly startedAt: number;
  readonly options: LanderOptions;
}

/** The one push that publishes a ticket's result, and its commit when it landed. */
export async function publish(
  queue: Queue,
  held: HeldLock,
  publication: Publication,
): Promise<"won" | "lost" | "unknown" | "again" | { readonly refused: unknown }> {
  const { snapshot, ticket, verdict, options } = publication;
  const { names, chains } = queue;
  const number = ticket.message.ticket;
  const merged: ReadyMerge | null = verdict.kind === "landed" ? verdict.merge : null;
  const objects = verdict.kind === "recovered"
    ? await options.workshop.reading(verdict.landed, options.signal)
    : merged?.objects;
  const lists = await listsAfter(chains, "done", snapshot.done, options.signal);
  return await held.exclusive(async () => {
    if (held.signal.aborted) return "again";
    const before = held.control();
    // A control entry may have been adopted since the verdict was found.
    if (before.paused) return "again";
    if (before.cancelled.includes(number) && verdict.kind === "landed") return "again";

    const landed = merged?.commit ?? (verdict.kind === "recovered" ? verdict.landed : null);
    const message: Result = resultMessage({
      ticket,
      verdict,
      lander: options.me,
      tip: verdict.kind === "recovered" ? verdict.tip : snapshot.tip ?? NO_TIP,
      startedAt: publication.startedAt,
      endedAt: options.clock.wall(),
      lastLanded: landed ?? publication.lastLanded,
      lists,
    });
    const genesis = snapshot.doneHead === null ? genesisOf("done", options.clock) : null;
    const parent = snapshot.doneHead ?? genesis!.oid;
    const done = chainCommit(
      landed === null ? [parent] : [parent, landed],
      message,
      options.clock.wall() / 1000,
    );
    const control: Control = {
      ...settled(before, number),
      ...(landed !== null && {
        acceptedTip: null,
        published: { ticket: number, tip: message.tip, landed },
      }),
      tip: landed ?? snapshot.tip ?? NO_TIP,
    };
    const lock = held.renewal(control);
    const updates: RefUpdate[] = [
      { ref: names.done, old: snapshot.doneHead, new: done.oid },
      { ref: names.lock, old: held.head(), new: lock.oid },
    ];
    if (merged) updates.unshift({ ref: names.branch, old: snapshot.tip, new: merged.commit });
    const outcome = await pushOnce(queue, {
      updates,
      commits: [...(genesis ? [genesis] : []), done, lock],
      ...(objects && { objects }),
      // The candidate came with its ticket, all it reaches included.
      remoteHas: [ticket.message.candidate, snapshot.tip, snapshot.queueHead, snapshot.doneHead]
        .filter((oid) => oid !== null),
    }).catch((error: unknown) => {
      if (merged && faultOf(error) === "refused") {
        const failed = before.failures?.ticket === number ? before.failures.count : 0;
        if (failed + 1 >= options.attempts) return { refused: error };
        held.setControl({ ...before, failures: { ticket: number, count: failed + 1 } });
      }
      throw error;
    });
    if (typeof outcome === "object") return outcome;
    const entry = await chains.remember("done", done);
    if (outcome === "won") {
      await held.renewed(lock, { ...control, confirmed: number });
      held.settle();
      options.onResult?.(entry);
      return "won";
    }
    if (outcome === "unknown") {
      if (landed !== null) {
        held.attempted({ ticket: number, tip: message.tip, landed });
      }
      const now = await readSnapshot(queue);
      if (await chainHolds(queue, "done", now.done, done.oid, snapshot.doneHead)) {
        // Applied after all, at least in part: the next reading of the refs sees what is left to do.
        options.onResult?.(entry);
        return "won";
      }
    }
    return outcome;
  });
}
