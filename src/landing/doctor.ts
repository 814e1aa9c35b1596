/**
 * What an origin can do for a landing queue, found out by asking it.
 *
 * Whether its hooks and permissions let us write the queue's refs is shown by a real push, and the one
 * that changes nothing for anybody is a lock entry that says "free" appended to a free lock: a line
 * more in that chain. While somebody holds the lock nothing is pushed.
 */
import { AgentqError } from "../errors.ts";
import type { Origin } from "../git/types.ts";
import { type Clock, systemClock } from "../platform/clock.ts";
import { lockCommit, readControl } from "./control.ts";
import { systemError } from "../platform/system-error.ts";
import { holderOf } from "./lock.ts";
import { faultOfPush, isTurnedDown, pushOnce, wordsOf } from "./push.ts";
import { openQueue, type Queue, type Snapshot } from "./snapshot.ts";

export type CheckStatus = "ok" | "warn" | "fail" | "skip";

export interface Check {
  readonly name: string;
  readonly status: CheckStatus;
  readonly message: string;
  /** What to do about it; null when there is nothing to do. */
  readonly hint: string | null;
}

export const check = (
  name: string,
  status: CheckStatus,
  message: string,
  hint: string | null = null,
): Check => ({ name, status, message, hint });

/** An error as the check that met it. */
export function failed(name: string, thrown: unknown): Check {
  const error = systemError(thrown) ?? thrown;
  if (error instanceof AgentqError) return check(name, "fail", error.message, error.hint);
  return check(name, "fail", error instanceof Error ? error.message : String(error));
}

export interface OriginDoctorOptions {
  readonly namespace: string;
  readonly branch: string | null;
  readonly by: string;
  /** False: read only, so that the push check is skipped. */
  readonly push: boolean;
  readonly signal?: AbortSignal;
  readonly clock?: Clock;
}

/** Checks one origin, from "can it be reached" to "does it let us write". Never throws for what it finds. */
export async function examineOrigin(
  open: () => Promise<Origin>,
  options: OriginDoctorOptions,
): Promise<Check[]> {
  const clock = options.clock ?? systemClock;
  let opened: { queue: Queue; snapshot: Snapshot };
  let origin: Origin;
  const began = clock.monotonic();
  try {
    origin = await open();
    opened = await openQueue(origin, options);
  } catch (error) {
    options.signal?.throwIfAborted();
    return [
      failed("origin", error),
      check("queue", "skip", "the origin could not be read"),
      check("push", "skip", "the origin could not be read"),
    ];
  }
  const { queue, snapshot } = opened;
  const took = Math.round(clock.monotonic() - began);
  return [
    check("origin", "ok", `${origin.url} answers over ${origin.kind}, ${took} ms for one look`),
    ...ownerCheck(origin),
    branchCheck(queue, snapshot),
    await queueCheck(queue, snapshot, options.signal),
    await pushCheck(queue, snapshot, options, clock),
  ];
}

function ownerCheck(origin: Origin): Check[] {
  const remark = origin.remark?.() ?? null;
  return remark === null ? [] : [check("origin-owner", "warn", remark.message, remark.hint)];
}

function branchCheck({ names }: Queue, snapshot: Snapshot): Check {
  return snapshot.tip !== null
    ? check("branch", "ok", `${names.branchName} is at ${snapshot.tip}`)
    : check(
      "branch",
      "warn",
      `the origin has no branch ${names.branchName}`,
      "The first ticket to land will create it; name another one with --branch.",
    );
}

async function queueCheck(queue: Queue, snapshot: Snapshot, signal?: AbortSignal): Promise<Check> {
  try {
    const control = await readControl(queue, snapshot.lock, signal);
    if (control.paused) {
      const why = control.paused.reason ? `: ${control.paused.reason}` : "";
      return check(
        "queue",
        "warn",
        `paused by ${control.paused.by}${why}`,
        "Run agentq resume when the reason is gone.",
      );
    }
    return check("queue", "ok", `${snapshot.unacked} waiting, the next ticket is ${snapshot.next}`);
  } catch (error) {
    signal?.throwIfAborted();
    return failed("queue", error);
  }
}

/** How often a push is tried whose answer was lost, or that another's move of the lock was in the way of. */
const PUSHES = 2;

async function pushCheck(
  queue: Queue,
  first: Snapshot,
  options: OriginDoctorOptions,
  clock: Clock,
): Promise<Check> {
  const { names, origin } = queue;
  if (!options.push) return check("push", "skip", "not tried with --read-only");
  let snapshot = first;
  try {
    for (let pushes = 1;; pushes++) {
      if (holderOf(snapshot.lock) !== null) {
        return check("push", "skip", `not tried: ${holderOf(snapshot.lock)} is landing now`);
      }
      const control = await readControl(queue, snapshot.lock, options.signal);
      const at = clock.wall();
      const entry = lockCommit(snapshot.lockHead, { holder: null, by: options.by, at, control });
      const outcome = await pushOnce(queue, {
        updates: [{ ref: names.lock, old: snapshot.lockHead, new: entry.oid }],
        commits: [entry],
        ...(snapshot.lockHead && { remoteHas: [snapshot.lockHead] }),
        ...(options.signal && { signal: options.signal }),
      });
      if (outcome === "won") {
        return check("push", "ok", `an atomic push to ${names.lock} is let through`);
      }
      const fault = outcome === "unknown" ? faultOfPush(queue) : null;
      if (fault && isTurnedDown(fault)) return check("push", "fail", wordsOf(fault), fault.hint);
      ({ snapshot } = await openQueue(origin, options));
      if (snapshot.lockHead === entry.oid) {
        return check(
          "push",
          "warn",
          `a push to ${names.lock} took effect, but its answer was lost`,
          "Look at the connection; run it again.",
        );
      }
      if (pushes < PUSHES) continue;
      if (outcome === "lost") {
        return check("push", "skip", "not tried: others move the lock all the time");
      }
      return check(
        "push",
        "fail",
        `pushes to ${names.lock} come to nothing, and the origin doesn't say why` +
          (fault ? `: ${wordsOf(fault)}` : ""),
        "Look at the connection and the origin's own log; its disk may be full or read-only.",
      );
    }
  } catch (error) {
    options.signal?.throwIfAborted();
    return failed("push", error);
  }
}
