/** What an operator asks of a queue: to cancel a ticket, to pause, to go on. Each is an entry of the `lock` chain. */
import { Buffer } from "node:buffer";
import type { Clock } from "../platform/clock.ts";
import { AgentqError } from "../errors.ts";
import { parseCommitLinks } from "../git/commit.ts";
import type { Oid } from "../git/types.ts";
import { numberOf, type ResultEntry } from "./chain.ts";
import { type Control, lockCommit, readControl, settled } from "./control.ts";
import type { Paused } from "./messages.ts";
import {
  afterPush,
  chainHolds,
  createRetry,
  foundAfterStop,
  PATIENCE_MS,
  pushOnce,
  toFindOut,
} from "./push.ts";
import { type Queue, readSnapshot, type Snapshot, unknownTicket } from "./snapshot.ts";

export interface ControlOptions {
  readonly clock: Clock;
  /** Who asks: a participant id. */
  readonly by: string;
  readonly signal?: AbortSignal;
}

/**
 * Appends a lock entry that keeps the holder and changes the control state. `change` is asked again
 * after every lost race; null means that there is nothing to change.
 */
async function changeControl(
  queue: Queue,
  snapshot: Snapshot,
  options: ControlOptions,
  what: string,
  change: (control: Control, snapshot: Snapshot) => Promise<Control | null> | Control | null,
): Promise<Snapshot> {
  const { clock, by, signal } = options;
  const retry = createRetry(clock, {
    what,
    start: snapshot.lockHead,
    patience: PATIENCE_MS,
  });
  for (;;) {
    const before = await readControl(queue, snapshot.lock, signal);
    const wanted = await change(before, snapshot);
    if (wanted === null) return snapshot;
    const made = lockCommit(snapshot.lockHead, {
      holder: snapshot.lock?.message.holder ?? null,
      by,
      at: clock.wall(),
      control: settled(wanted, snapshot.next - 1),
    });
    const pushed = await pushOnce(queue, {
      updates: [{ ref: queue.names.lock, old: snapshot.lockHead, new: made.oid }],
      commits: [made],
      ...(signal && { signal }),
    });
    if (pushed.status === "won") return snapshot;
    const old = snapshot.lockHead;
    if (pushed.status === "unknown" && signal?.aborted) {
      return await foundAfterStop(what, async (asking) => {
        const now = await readSnapshot(queue, asking);
        return await chainHolds(queue, "lock", now.lock, made.oid, old, asking) ? now : null;
      });
    }
    snapshot = await readSnapshot(queue, signal).catch((error) => {
      throw afterPush(what, pushed, error);
    });
    if (
      pushed.status === "unknown" &&
      await chainHolds(queue, "lock", snapshot.lock, made.oid, old, signal)
    ) {
      return snapshot;
    }
    await retry.again(snapshot.lockHead, pushed, signal);
  }
}

/**
 * Cancels a ticket: from here on it never lands. Gives its result when it already has one.
 * @throws `ticket-unknown`
 */
export async function cancelTicket(
  queue: Queue,
  snapshot: Snapshot,
  ticket: number,
  options: ControlOptions,
): Promise<ResultEntry | null> {
  const last = await changeControl(queue, snapshot, options, "cancel", (control, now) => {
    if (ticket > numberOf(now.queue)) throw unknownTicket(ticket, now);
    if (ticket < now.next || control.cancelled.includes(ticket)) return null;
    return { ...control, cancelled: [...control.cancelled, ticket].sort((a, b) => a - b) };
  });
  // A landing that an origin applied by halves can have recorded its result beside our entry: from
  // here on none can, so one more look settles it.
  const signal = toFindOut(options.signal);
  const after = ticket < last.next ? last : await readSnapshot(queue, signal);
  if (ticket >= after.next) return null;
  return await queue.chains.find("done", after.done!, ticket, signal);
}

/**
 * Whether the branch is at what the next ticket wants, be it by a landing that was interrupted or by hand: to
 * cancel it is too late then, the next lander records it.
 */
export async function isOnBranch(
  queue: Queue,
  snapshot: Snapshot,
  ticket: number,
  signal?: AbortSignal,
): Promise<boolean> {
  const { tip } = snapshot;
  if (ticket !== snapshot.next || snapshot.unacked === 0 || tip === null) return false;
  const control = await readControl(queue, snapshot.lock, signal);
  if (control.cancelled.includes(ticket)) return false;
  const entry = await queue.chains.find("queue", snapshot.queue!, ticket, signal);
  const { candidate, agentq } = entry.message;
  if (tip === candidate) return agentq?.tip !== tip && snapshot.done?.message.landed !== tip;
  const commit = (await queue.origin.readCommits([tip], signal)).get(tip);
  return commit !== undefined && parseCommitLinks(commit, tip).parents[1] === candidate;
}

const MAX_REASON_BYTES = 4096;

/** Pauses landing; submissions are still accepted. @throws `usage` for a reason that is too long */
export async function pauseQueue(
  queue: Queue,
  snapshot: Snapshot,
  reason: string | null,
  options: ControlOptions,
): Promise<Paused> {
  // Every entry of the lock carries it along.
  if (Buffer.byteLength(reason ?? "") > MAX_REASON_BYTES) {
    throw new AgentqError("usage", `the reason is longer than ${MAX_REASON_BYTES} bytes`, {
      hint: "Say it shorter: every waiter shows it.",
    });
  }
  const paused: Paused = { by: options.by, reason };
  await changeControl(queue, snapshot, options, "pause", (control) => ({ ...control, paused }));
  return paused;
}

/**
 * Lifts a pause and, with `acceptTip`, goes on from a branch that lost its last landed commit.
 * @throws `tip-moved` when the branch isn't at the accepted tip
 */
export async function resumeQueue(
  queue: Queue,
  snapshot: Snapshot,
  acceptTip: Oid | null,
  options: ControlOptions,
): Promise<void> {
  await changeControl(queue, snapshot, options, "resume", (control, now) => {
    if (acceptTip !== null && now.tip !== acceptTip) {
      throw new AgentqError(
        "tip-moved",
        now.tip === null
          ? `there is no branch ${
            JSON.stringify(queue.names.branchName)
          }, at ${acceptTip} or elsewhere`
          : `branch ${
            JSON.stringify(queue.names.branchName)
          } is at ${now.tip}, not at ${acceptTip}`,
        {
          ...(now.tip === null && {
            hint: "Push the branch first, at the commit to go on from, and accept that one.",
          }),
          details: { tip: now.tip, acceptTip },
        },
      );
    }
    if (acceptTip === null) return control.paused === null ? null : { ...control, paused: null };
    // No result up to here is unfinished any more, and none that follows was there when it was accepted.
    const confirmed = now.next === 0 ? null : now.next - 1;
    const known = control.acceptedTip === acceptTip && control.confirmed === confirmed;
    if (known && control.paused === null) return null;
    return { ...control, paused: null, acceptedTip: acceptTip, confirmed };
  });
}
