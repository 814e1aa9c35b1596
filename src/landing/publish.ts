/**
 * The one push that publishes: the branch, leased on the tip that was merged and verified, `done`,
 * leased on its head, and a lock entry, leased on the lock's head. A holder that lost any of the three
 * publishes nothing. It is about one ticket, but where tickets are passed over (pass-over.ts) `done` moves
 * by several entries, of which the last one lands.
 */
import type { ObjectReader, Oid, RefUpdate } from "../git/types.ts";
import { type AgentqError, isAgentqError } from "../errors.ts";
import type { ResultEntry, TicketEntry } from "./chain.ts";
import { chainCommit, type NewCommit } from "./chain-commit.ts";
import { type Control, settled } from "./control.ts";
import { genesisOf } from "./enqueue.ts";
import type { LanderOptions } from "./lander-options.ts";
import type { HeldLock } from "./held-lock.ts";
import { listsAfter } from "./lists.ts";
import { NO_TIP, type Result } from "./messages.ts";
import { chainHolds, type Pushed, pushOnce } from "./push.ts";
import { resultMessage, type Verdict } from "./result.ts";
import { type Queue, readSnapshot, type Snapshot } from "./snapshot.ts";
import type { ReadyMerge } from "./workshop.ts";

/** Moves the branch to where `done` says it is, fenced by the lock like every publication. */
export async function rollForward(
  queue: Queue,
  held: HeldLock,
  what: { readonly snapshot: Snapshot; readonly landed: Oid; readonly objects: ObjectReader },
): Promise<Pushed> {
  const { snapshot, landed, objects } = what;
  return await held.exclusive(async () => {
    const control = held.control();
    // A pause may have been adopted since it was looked at: nothing moves the branch then.
    if (control.paused || held.signal.aborted) return { status: "lost" };
    // This push too may be applied by halves: only what comes after it says that it was seen whole.
    const lock = held.renewal(control);
    const pushed = await pushOnce(queue, {
      updates: [
        { ref: queue.names.branch, old: snapshot.tip, new: landed },
        { ref: queue.names.lock, old: held.head(), new: lock.oid },
      ],
      commits: [lock],
      objects,
      remoteHas: [landed, snapshot.doneHead!],
    });
    if (pushed.status === "won") {
      const confirmed = snapshot.done!.message.ticket;
      await held.renewed(lock, { ...control, confirmed, acceptedTip: null });
    }
    return pushed;
  });
}

/** A ticket whose verdict is to be recorded. */
export interface Judged {
  readonly ticket: TicketEntry;
  readonly verdict: Verdict;
  /** When work on it began, in wall time. */
  readonly startedAt: number;
}

export interface Publication {
  readonly snapshot: Snapshot;
  /** In the order of their numbers, from the next one on; only the last one lands. */
  readonly line: readonly Judged[];
  readonly lastLanded: Oid | null;
  readonly options: LanderOptions;
}

export type Published =
  | Pushed
  /** Nothing was pushed: read the refs again, and decide anew. */
  | { readonly status: "again" }
  | Refused;

/** The origin refuses to have the branch moved so: `push-refused`. */
export interface Refused {
  readonly status: "refused";
  readonly error: AgentqError;
}

/** The one push that publishes the results of tickets, and the commit of the last where it landed. */
export async function publish(
  queue: Queue,
  held: HeldLock,
  publication: Publication,
): Promise<Published> {
  const { snapshot, line, options } = publication;
  const { names } = queue;
  const last = line.at(-1)!;
  const { verdict } = last;
  const number = last.ticket.message.ticket;
  const merged: ReadyMerge | null = verdict.kind === "landed" ? verdict.merge : null;
  const objects = verdict.kind === "recovered"
    ? await options.workshop.reading(verdict.landed, options.signal)
    : merged?.objects;
  const landed = merged?.commit ?? (verdict.kind === "recovered" ? verdict.landed : null);
  return await held.exclusive(async () => {
    if (held.signal.aborted) return { status: "again" };
    const before = held.control();
    // A control entry may have been adopted since the verdict was found.
    if (before.paused) return { status: "again" };
    if (merged && line.some((one) => isCancelledSince(before, one))) return { status: "again" };

    const results = await resultsOf(queue, publication, landed);
    const made = results.commits;
    const done = results.last;
    const control: Control = {
      // What this push settles stays until it was seen whole: an origin may apply the lock's part alone.
      ...settled(before, snapshot.next - 1),
      ...(landed !== null && {
        published: { ticket: number, tip: done.message.tip, landed },
      }),
      tip: merged?.commit ?? snapshot.tip ?? NO_TIP,
    };
    if (merged && line.length > 1) {
      // Should the branch alone move by what follows, this says for which ticket.
      const intent = held.renewal({ ...before, published: control.published });
      const pushed = await pushOnce(queue, {
        updates: [{ ref: names.lock, old: held.head(), new: intent.oid }],
        commits: [intent],
      });
      if (pushed.status !== "won") return pushed;
      await held.renewed(intent, { ...before, published: control.published });
    }
    const lock = held.renewal(control);
    const updates: RefUpdate[] = [
      { ref: names.done, old: snapshot.doneHead, new: done.oid },
      { ref: names.lock, old: held.head(), new: lock.oid },
    ];
    if (merged) updates.unshift({ ref: names.branch, old: snapshot.tip, new: merged.commit });
    const outcome: Pushed | Refused = await pushOnce(queue, {
      updates,
      commits: [...made, lock],
      ...(objects && { objects }),
      // The candidate came with its ticket, all it reaches included.
      remoteHas: [
        last.ticket.message.candidate,
        snapshot.tip,
        snapshot.queueHead,
        snapshot.doneHead,
      ].filter((oid) => oid !== null),
    }).catch((error: unknown) => {
      if (!merged || !isAgentqError(error, "push-refused")) throw error;
      return { status: "refused", error };
    });
    if (outcome.status === "refused") {
      held.setControl({ ...held.control(), published: before.published });
      return outcome;
    }
    const answered = () => results.entries.forEach((entry) => options.onResult?.(entry));
    if (outcome.status === "won") {
      await held.renewed(lock, {
        ...settled(control, number),
        confirmed: number,
        ...(landed !== null && { acceptedTip: null }),
      });
      held.settle();
      answered();
      return outcome;
    }
    if (outcome.status === "unknown") {
      if (landed !== null) {
        held.attempted({ ticket: number, tip: done.message.tip, landed });
      }
      const now = await readSnapshot(queue);
      if (await chainHolds(queue, "done", now.done, done.oid, snapshot.doneHead)) {
        // Applied after all, at least in part: the next reading of the refs sees what is left to do.
        answered();
        return { status: "won" };
      }
    }
    return outcome;
  });
}

function isCancelledSince({ cancelled }: Control, { ticket, verdict }: Judged): boolean {
  return verdict.kind !== "cancelled" && cancelled.includes(ticket.message.ticket);
}

/** The entries that `done` gets, one for each ticket, and before its very first one a genesis. */
async function resultsOf(
  queue: Queue,
  { snapshot, line, lastLanded, options }: Publication,
  landed: Oid | null,
): Promise<{ commits: NewCommit[]; entries: ResultEntry[]; last: ResultEntry }> {
  const { chains } = queue;
  const commits: NewCommit[] = [];
  const entries: ResultEntry[] = [];
  let before = snapshot.done;
  let parent = snapshot.doneHead;
  if (parent === null) {
    const genesis = genesisOf("done", options.clock);
    commits.push(genesis);
    parent = genesis.oid;
  }
  for (const one of line) {
    const { ticket, verdict, startedAt } = one;
    const landing = one === line.at(-1) ? landed : null;
    const message: Result = resultMessage({
      ticket,
      verdict,
      lander: options.me,
      tip: verdict.kind === "recovered" ? verdict.tip : snapshot.tip ?? NO_TIP,
      startedAt,
      endedAt: options.clock.wall(),
      lastLanded: landing ?? lastLanded,
      lists: await listsAfter(chains, "done", before, options.signal),
    });
    const made = chainCommit(
      landing === null ? [parent] : [parent, landing],
      message,
      options.clock.wall() / 1000,
    );
    commits.push(made);
    before = await chains.remember("done", made);
    entries.push(before);
    parent = made.oid;
  }
  return { commits, entries, last: before! };
}
