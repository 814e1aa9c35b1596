/**
 * The lander: while it holds the lock it lands tickets in order, each by one atomic push of the branch
 * (leased on the tip that was merged and verified), `done` (leased on its head) and a lock renewal
 * (leased on the lock's head).
 *
 *     reread ─▶ decide ─▶ merge ─▶ verify ─▶ push ──won──▶ next ticket
 *       ▲                                     │
 *       └── lost, unknown, control changed ◀──┘     lock lost at any time: stop, nothing published
 *
 * Nothing is remembered across a turn but the last verdict, which counts only for the very same ticket
 * on the very same tip: whatever happened to a push, reading the refs again and deciding anew is right.
 */
import { type Clock, throwIfAborted } from "../platform/clock.ts";
import { AgentqError } from "../errors.ts";
import type { ObjectReader, Oid, RefUpdate } from "../git/types.ts";
import type { ResultEntry, TicketEntry } from "./chain.ts";
import { chainCommit } from "./chain-commit.ts";
import { type Control, settled } from "./control.ts";
import { anchorOf, isRewound, lastLanded, unfinishedPublication } from "./decide.ts";
import { genesisOf } from "./enqueue.ts";
import { faultOf } from "./faults.ts";
import { alreadyPublished } from "./half-state.ts";
import type { HeldLock } from "./lock.ts";
import { NO_TIP, type Result } from "./messages.ts";
import { chainHolds, createRetry, pushOnce } from "./push.ts";
import { resultMessage, type Verdict } from "./result.ts";
import { nextSkipList } from "./skip.ts";
import { type Queue, readSnapshot, type Snapshot } from "./snapshot.ts";
import type { Left, ReadyMerge, Workshop } from "./workshop.ts";

export interface LanderOptions {
  readonly clock: Clock;
  /** This run's participant id. */
  readonly me: string;
  readonly workshop: Workshop;
  /** How often a ticket's checks may fail to run, on all machines together, before it is refused. */
  readonly attempts: number;
  /** Stop after the ticket of this number. */
  readonly until?: number;
  /** Stop after so many results. */
  readonly max?: number;
  /** Aborted when this run is to end. */
  readonly signal: AbortSignal;
  readonly onProgress?: (text: string) => void;
  readonly onResult?: (entry: ResultEntry) => void;
}

/** Why a lander stopped. */
export type Stop =
  | { readonly why: "idle" | "until" | "max" | "lost" }
  | { readonly why: "paused"; readonly by: string; readonly reason: string | null }
  /** The ticket is left to another lander. */
  | { readonly why: "left"; readonly ticket: number; readonly because: string }
  /** The checks of the ticket couldn't be run; it may be tried again, here or elsewhere. */
  | { readonly why: "failed"; readonly ticket: number; readonly error: unknown };

/** Thrown into running work when a control entry makes it pointless. */
class ControlChanged extends Error {}

interface Judged {
  readonly ticket: Oid;
  readonly tip: Oid | null;
  readonly verdict: Verdict;
}

/**
 * Lands tickets until there is a reason to stop. The lock is the caller's to release.
 * @throws `branch-rewound`, `push-refused`, `corrupt-chain`, what the machine or the transport throws
 */
export async function landTickets(
  queue: Queue,
  held: HeldLock,
  options: LanderOptions,
): Promise<Stop> {
  const { clock, signal } = options;
  const retry = createRetry(clock, "land", null);
  let judged = null as Judged | null;
  let landedHere = 0;
  for (;;) {
    throwIfAborted(signal);
    const snapshot = await reread(queue, held, signal);
    if (snapshot === null) return { why: "lost" };
    const control = held.control();
    if (control.paused) return { why: "paused", ...pausedBy(control) };

    const unfinished = unfinishedPublication(snapshot, control);
    if (unfinished !== null) {
      options.onProgress?.(`ticket ${snapshot.next - 1}: finishing an interrupted publication`);
      const objects = await options.workshop.reading(unfinished, signal);
      const outcome = await rollForward(queue, held, { snapshot, landed: unfinished, objects });
      if (outcome !== "won") await retry.again(place(snapshot, held), outcome, signal);
      continue;
    }
    const landed = await lastLanded(queue.chains, snapshot.done, signal);
    const contains = (commit: Oid, ancestor: Oid) =>
      options.workshop.contains(commit, ancestor, signal);
    if (await isRewound(snapshot, control, landed, contains)) {
      throw rewound(queue, snapshot, anchorOf(control, landed)!);
    }
    const number = snapshot.next;
    held.setControl({ ...control, confirmed: number === 0 ? null : number - 1 });
    if (snapshot.unacked === 0) return { why: "idle" };
    if (options.until !== undefined && number > options.until) return { why: "until" };
    if (options.max !== undefined && landedHere >= options.max) return { why: "max" };

    const ticket = await queue.chains.find("queue", snapshot.queue!, number, signal);
    const startedAt = clock.wall();
    if (judged?.ticket === ticket.oid && isHalfApplied(judged, snapshot)) {
      judged = recovered(judged, snapshot);
    } else if (
      judged?.ticket !== ticket.oid || judged.tip !== snapshot.tip ||
      control.cancelled.includes(number)
    ) {
      const outcome = await judge(held, { snapshot, landed, ticket }, options);
      if (outcome === "again") continue;
      if (outcome === "lost") return { why: "lost" };
      if (outcome.kind === "stop") return outcome.stop;
      judged = { ticket: ticket.oid, tip: snapshot.tip, verdict: outcome.verdict };
    }
    const outcome = await publish(queue, held, {
      snapshot,
      ticket,
      verdict: judged.verdict,
      lastLanded: landed,
      startedAt,
      options,
    });
    if (outcome === "again") continue;
    if (typeof outcome === "object") {
      judged = { ...judged, verdict: { kind: "failed", error: outcome.refused } };
      continue;
    }
    if (outcome !== "won") {
      await retry.again(place(snapshot, held), outcome, signal);
      continue;
    }
    landedHere++;
    judged = null;
  }
}

/** What moves when anybody makes progress. */
function place(snapshot: Snapshot, held: HeldLock): string {
  return `${snapshot.tip} ${snapshot.doneHead} ${held.head()}`;
}

function pausedBy(control: Control): { by: string; reason: string | null } {
  return { by: control.paused!.by, reason: control.paused!.reason };
}

/** Reads the refs while no renewal is under way; null when the lock is lost. */
async function reread(
  queue: Queue,
  held: HeldLock,
  signal: AbortSignal,
): Promise<Snapshot | null> {
  return await held.exclusive(async () => {
    if (held.signal.aborted) return null;
    const snapshot = await readSnapshot(queue, signal);
    return await held.observe(snapshot) ? snapshot : null;
  });
}

/** Moves the branch to where `done` says it is, fenced by the lock like every publication. */
async function rollForward(
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
      held.renewed(lock, { ...control, confirmed: snapshot.done!.message.ticket });
    }
    return outcome;
  });
}

function rewound(queue: Queue, snapshot: Snapshot, anchor: Oid): AgentqError {
  const branch = JSON.stringify(queue.names.branchName);
  return new AgentqError(
    "branch-rewound",
    `branch ${branch} is at ${snapshot.tip ?? "nothing"} and no longer contains ${anchor}, ` +
      `which the queue landed`,
    { details: { branch: queue.names.branchName, tip: snapshot.tip, landed: anchor } },
  );
}

type Judgement =
  | "again"
  | "lost"
  | { readonly kind: "verdict"; readonly verdict: Verdict }
  | { readonly kind: "stop"; readonly stop: Stop };

/** Our own publication moved the branch and nothing else: the origin stopped half-way through it. */
function isHalfApplied(judged: Judged, snapshot: Snapshot): boolean {
  const { verdict } = judged;
  return verdict.kind === "landed" && verdict.merge.commit === snapshot.tip &&
    judged.tip !== snapshot.tip;
}

function recovered(judged: Judged, snapshot: Snapshot): Judged {
  const landed = judged.verdict as Verdict & { kind: "landed" };
  return {
    ticket: judged.ticket,
    tip: snapshot.tip,
    verdict: { kind: "recovered", tip: judged.tip ?? NO_TIP, landed: snapshot.tip!, by: landed },
  };
}

/** Finds the verdict on a ticket: everything between reading it and publishing its result. */
async function judge(
  held: HeldLock,
  at: { readonly snapshot: Snapshot; readonly landed: Oid | null; readonly ticket: TicketEntry },
  options: LanderOptions,
): Promise<Judgement> {
  const { workshop, signal } = options;
  const { snapshot, ticket } = at;
  const number = ticket.message.ticket;
  const { tip } = snapshot;
  const work = new AbortController();
  const onEnd = () => work.abort(signal.reason);
  const onLost = () => work.abort(held.signal.reason);
  signal.addEventListener("abort", onEnd, { once: true });
  held.signal.addEventListener("abort", onLost, { once: true });
  held.onControl((control) => {
    if (control.paused || control.cancelled.includes(number)) work.abort(new ControlChanged());
  });
  const progress = (text: string) => options.onProgress?.(`ticket ${number}: ${text}`);
  const given = (verdict: Verdict): Judgement => ({ kind: "verdict", verdict });
  try {
    const mergedOnto = await alreadyPublished(at, held, workshop, work.signal);
    if (mergedOnto !== null) {
      progress("already on the branch, by an interrupted publication");
      return given({ kind: "recovered", tip: mergedOnto, landed: tip!, by: null });
    }
    if (held.control().cancelled.includes(number)) return given({ kind: "cancelled" });

    const admitted = await workshop.admit(ticket, tip, work.signal);
    if (admitted?.verdict === "left") return { kind: "stop", stop: leave(number, admitted) };
    if (admitted) return given({ kind: "refused", refusal: admitted });
    progress("merging");
    const merge = await workshop.merge(ticket, tip, work.signal);
    if (merge.verdict === "refused") return given({ kind: "refused", refusal: merge });
    progress("verifying");
    const verified = await workshop.verify(ticket, tip, merge, work.signal);
    if (verified.verdict === "refused") {
      return given({ kind: "refused", refusal: verified, tree: merge.tree, base: merge.base });
    }
    return given({ kind: "landed", merge, verified });
  } catch (error) {
    if (held.signal.aborted) return "lost";
    if (error instanceof ControlChanged || work.signal.reason instanceof ControlChanged) {
      return "again";
    }
    throwIfAborted(signal);
    return onFailure(held, number, error, options);
  } finally {
    held.onControl(null);
    signal.removeEventListener("abort", onEnd);
    held.signal.removeEventListener("abort", onLost);
  }
}

function leave(ticket: number, left: Left): Stop {
  return { why: "left", ticket, because: left.why };
}

/**
 * The checks of a ticket could not be run. A fault of this machine or of the origin is thrown: it says
 * nothing about the ticket. Anything else is counted in the lock chain, so that other machines get
 * their chance, and only after `attempts` of them is the ticket refused rather than left to wedge the
 * queue.
 */
function onFailure(
  held: HeldLock,
  ticket: number,
  error: unknown,
  options: LanderOptions,
): Judgement {
  const fault = faultOf(error);
  if (fault === "machine" || fault === "origin") throw error;
  const control = held.control();
  const before = control.failures?.ticket === ticket ? control.failures.count : 0;
  if (fault === "ticket" || before + 1 >= options.attempts) {
    return { kind: "verdict", verdict: { kind: "failed", error } };
  }
  held.setControl({ ...control, failures: { ticket, count: before + 1 } });
  return { kind: "stop", stop: { why: "failed", ticket, error } };
}

interface Publication {
  readonly snapshot: Snapshot;
  readonly ticket: TicketEntry;
  readonly verdict: Verdict;
  readonly lastLanded: Oid | null;
  readonly startedAt: number;
  readonly options: LanderOptions;
}

/** The one push that publishes a ticket's result, and its commit when it landed. */
async function publish(
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
      skip: snapshot.done
        ? nextSkipList(
          snapshot.done.message.ticket,
          snapshot.done.oid,
          snapshot.done.message.agentq?.skip,
        )
        : undefined,
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
    const entry = chains.remember("done", done.oid, done.content);
    if (outcome === "won") {
      held.renewed(lock, { ...control, confirmed: number });
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
