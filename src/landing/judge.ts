/** The verdict on one ticket: everything between reading it and publishing its result. */
import { AgentqError } from "../errors.ts";
import { throwIfAborted } from "../platform/clock.ts";
import type { Oid } from "../git/types.ts";
import type { TicketEntry } from "./chain.ts";
import { faultOf } from "./faults.ts";
import { alreadyPublished, buriedPublication } from "./half-state.ts";
import type { LanderOptions, Stop } from "./lander-options.ts";
import type { HeldLock } from "./held-lock.ts";
import { landedBefore } from "./landed-before.ts";
import { type Overtaken, overtakenTooOften } from "./overtaken.ts";
import { REASONS, type Verdict } from "./result.ts";
import type { Queue, Snapshot } from "./snapshot.ts";
import type { Left, Refusal } from "./workshop.ts";

/** Thrown into running work when a control entry makes it pointless. */
class ControlChanged extends Error {}

export type Judgement =
  | "again"
  | "lost"
  | { readonly kind: "verdict"; readonly verdict: Verdict }
  | { readonly kind: "stop"; readonly stop: Stop };

/** Finds the verdict on a ticket: everything between reading it and publishing its result. */
export async function judge(
  queue: Queue,
  held: HeldLock,
  at: {
    readonly snapshot: Snapshot;
    readonly landed: Oid | null;
    readonly ticket: TicketEntry;
    /** How often the branch moved while it was checked in this run. */
    readonly overtaken?: Overtaken | null;
  },
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
  /** It was published, and somebody has built on that. A cancellation that came after is too late. */
  const below = async (): Promise<Judgement | null> => {
    const found = await buriedPublication(at, held, workshop, work.signal);
    if (found === null) return null;
    progress("on the branch already, below its tip: recording it");
    return given({ kind: "recovered", ...found, by: null });
  };
  try {
    const mergedOnto = await alreadyPublished(at, held, workshop, work.signal);
    if (mergedOnto !== null) {
      progress("already on the branch: recording it");
      return given({ kind: "recovered", tip: mergedOnto, landed: tip!, by: null });
    }
    const cancelled = held.control().cancelled.includes(number);
    const buried = cancelled ? await below() : null;
    if (buried !== null) return buried;
    if (cancelled) return given({ kind: "cancelled" });

    const deaths = held.control().deaths;
    if (deaths?.ticket === number && deaths.count >= MAX_DEATHS) {
      return given({ kind: "failed", error: fatal(number, deaths.count) });
    }
    const admitted = await workshop.admit(ticket, tip, work.signal);
    if (admitted?.verdict === "left") return { kind: "stop", stop: leave(number, admitted) };
    if (admitted) return given({ kind: "refused", refusal: admitted });
    progress("merging");
    const merge = await workshop.merge(ticket, tip, work.signal);
    if (merge.verdict === "refused") {
      const buried = merge.reason === REASONS.nothing ? await below() : null;
      if (buried !== null) return buried;
      const refusal = await namingTicket(queue, at, merge, work.signal);
      return given({ kind: "refused", refusal });
    }
    const tooOften = at.overtaken?.ticket === ticket.oid
      ? overtakenTooOften(at.overtaken, options.clock.monotonic())
      : null;
    if (tooOften !== null) return given({ kind: "failed", error: tooOften });
    const verified = await workshop.verify(
      ticket,
      tip,
      merge,
      work.signal,
      () => progress("verifying"),
    );
    if (verified.verdict === "left") return { kind: "stop", stop: leave(number, verified) };
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

/** Of a candidate that is on the branch already the report says which ticket landed it, where one did. */
async function namingTicket(
  queue: Queue,
  { snapshot, ticket }: { readonly snapshot: Snapshot; readonly ticket: TicketEntry },
  refusal: Refusal,
  signal: AbortSignal,
): Promise<Refusal> {
  if (refusal.reason !== REASONS.nothing) return refusal;
  const by = await landedBefore(queue, snapshot.done, ticket.message.candidate, signal);
  if (by === null) return refusal;
  const note = `Ticket ${by.message.ticket} landed it.`;
  return { ...refusal, report: refusal.report === "" ? note : `${refusal.report} ${note}` };
}

/**
 * How many landers may die on one ticket. Its checks may be what kills them (a command that kills its
 * parent, that eats all memory), and then it would take down every machine in turn, for ever.
 */
export const MAX_DEATHS = 8;

function fatal(ticket: number, count: number): AgentqError {
  return new AgentqError(
    "landers-lost",
    `${count} landers in a row were killed or cut off while they worked on ticket ${ticket}`,
  );
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
