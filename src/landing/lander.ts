/**
 * The lander: while it holds the lock it lands tickets in order, each by one atomic push of the branch
 * (leased on the tip that was merged and verified), `done` (leased on its head) and a lock renewal
 * (leased on the lock's head).
 *
 *     reread ─▶ decide ─▶ merge ─▶ verify ─▶ push ──won──▶ next ticket
 *       ▲                                     │
 *       └── lost, unknown, control changed ◀──┤     lock lost at any time: stop, nothing published
 *                                             └─refused─▶ pass-over.ts: an error, or a ticket behind it lands
 *
 * Nothing is remembered across a turn but the last verdict, which counts only for the very same ticket
 * on the very same tip: whatever happened to a push, reading the refs again and deciding anew is right.
 */
import type { AgentqError } from "../errors.ts";
import { throwIfAborted } from "../platform/clock.ts";
import type { Oid } from "../git/types.ts";
import type { Control } from "./control.ts";
import { acceptedTip, anchorOf, isRewound, lastLanded, unfinishedPublication } from "./decide.ts";
import { assertPublication } from "./half-state.ts";
import { judge } from "./judge.ts";
import type { LanderOptions, Stop } from "./lander-options.ts";
import type { HeldLock } from "./held-lock.ts";
import { NO_TIP } from "./messages.ts";
import { movedMeanwhile, type Overtaken, overtakenOnceMore } from "./overtaken.ts";
import { halfPassedOver, onRefusal } from "./pass-over.ts";
import { type Judged, publish, type Published, rollForward } from "./publish.ts";
import { createRetry, type PushedNot } from "./push.ts";
import type { Verdict } from "./result.ts";
import { branchRewound } from "./rewound.ts";
import { type Queue, readSnapshot, type Snapshot } from "./snapshot.ts";

/** The last verdict, and the tip it was found on. */
interface OnTip extends Judged {
  readonly tip: Oid | null;
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
  const retry = createRetry(clock, {
    what: "land",
    start: null,
    onFault: (fault) => options.onProgress?.(`${fault.message.replace(/\.$/, "")}; trying again`),
  });
  let judged = null as OnTip | null;
  /** The last ticket that the origin refused to have published in this run. */
  let refusedHere = null as { readonly ticket: Oid; readonly error: AgentqError } | null;
  let overtaken = null as Overtaken | null;
  let landedHere = 0;
  const counting: LanderOptions = {
    ...options,
    onResult: (entry) => {
      landedHere++;
      options.onResult?.(entry);
    },
  };
  for (;;) {
    throwIfAborted(signal);
    const snapshot = await reread(queue, held, signal);
    if (snapshot === null) return lostLock(held);
    const control = held.control();
    if (control.paused) return { why: "paused", ...pausedBy(control) };

    const unfinished = unfinishedPublication(snapshot, control);
    if (unfinished !== null) {
      await assertPublication(queue, snapshot, unfinished, options.workshop, signal);
      options.onProgress?.(`ticket ${snapshot.next - 1}: finishing an interrupted publication`);
      const objects = await options.workshop.reading(unfinished, signal);
      const asked = clock.monotonic();
      const pushed = await rollForward(queue, held, { snapshot, landed: unfinished, objects });
      if (pushed.status !== "won") {
        await retry.again(place(snapshot, held, pushed), pushed, signal, asked);
      }
      continue;
    }
    const landed = await lastLanded(queue.chains, snapshot.done, signal);
    const contains = (commit: Oid, ancestor: Oid) =>
      options.workshop.contains(commit, ancestor, signal);
    if (await isRewound(snapshot, control, landed, contains)) {
      const anchor = anchorOf(snapshot, control, landed)!;
      throw branchRewound(queue, snapshot, { anchor, landed });
    }
    const number = snapshot.next;
    held.setControl({
      ...control,
      confirmed: number === 0 ? null : number - 1,
      acceptedTip: acceptedTip(snapshot, control),
    });
    if (snapshot.unacked === 0) return { why: "idle" };
    if (options.until !== undefined && number > options.until) return { why: "until" };
    if (options.max !== undefined && landedHere >= options.max) return { why: "max" };

    const passing = await halfPassedOver(queue, { snapshot, landed, control }, options);
    let line: readonly Judged[];
    if (passing !== null) {
      options.onProgress?.(`ticket ${number}: finishing an interrupted publication behind it`);
      line = passing;
    } else {
      const ticket = await queue.chains.find("queue", snapshot.queue!, number, signal);
      const startedAt = clock.wall();
      if (judged?.ticket.oid === ticket.oid && isHalfApplied(judged, snapshot)) {
        judged = recovered(judged, snapshot);
      } else if (
        judged?.ticket.oid !== ticket.oid || judged.tip !== snapshot.tip ||
        control.cancelled.includes(number)
      ) {
        if (judged?.ticket.oid === ticket.oid && judged.tip !== snapshot.tip) {
          overtaken = overtakenOnceMore(overtaken, ticket.oid, clock.monotonic());
          options.onProgress?.(`ticket ${number}: ${movedMeanwhile(overtaken)}`);
        }
        const outcome = await judge(
          queue,
          held,
          { snapshot, landed, ticket, overtaken },
          options,
        );
        if (outcome === "again") continue;
        if (outcome === "lost") return lostLock(held);
        if (outcome.kind === "stop") return outcome.stop;
        judged = { ticket, tip: snapshot.tip, startedAt, verdict: outcome.verdict };
      }
      line = [judged];
    }
    const asked = clock.monotonic();
    // Once a run: a branch that moves all the time must not have the origin refuse the same thing all the time.
    const known =
      line.at(-1)!.verdict.kind === "landed" && refusedHere?.ticket === line[0]!.ticket.oid
        ? refusedHere
        : null;
    const published: Published = known
      ? { status: "refused", error: known.error }
      : await publish(queue, held, { snapshot, line, lastLanded: landed, options: counting });
    if (published.status === "refused") {
      refusedHere = { ticket: judged!.ticket.oid, error: published.error };
    }
    const outcome = published.status === "refused"
      ? await onRefusal(
        queue,
        held,
        { snapshot, landed, judged: judged!, error: published.error, counted: known !== null },
        counting,
      )
      : published;
    if (outcome.status === "won") judged = null;
    else if (outcome.status !== "again") {
      await retry.again(place(snapshot, held, outcome), outcome, signal, asked);
    }
  }
}

function lostLock(held: HeldLock): Stop {
  return { why: "lost", because: (held.signal.reason as Error).message };
}

/** What moves when anybody makes progress; where a push came to nothing, our own renewals are none. */
function place(snapshot: Snapshot, held: HeldLock, { status }: PushedNot): string {
  const { tip, doneHead } = snapshot;
  return `${tip} ${doneHead} ${status === "lost" ? held.head() : ""}`;
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

/** Our own publication moved the branch and nothing else: the origin stopped half-way through it. */
function isHalfApplied(judged: OnTip, snapshot: Snapshot): boolean {
  const { verdict } = judged;
  return verdict.kind === "landed" && verdict.merge.commit === snapshot.tip &&
    judged.tip !== snapshot.tip;
}

function recovered(judged: OnTip, snapshot: Snapshot): OnTip {
  const landed = judged.verdict as Verdict & { kind: "landed" };
  return {
    ...judged,
    tip: snapshot.tip,
    verdict: { kind: "recovered", tip: judged.tip ?? NO_TIP, landed: snapshot.tip!, by: landed },
  };
}
