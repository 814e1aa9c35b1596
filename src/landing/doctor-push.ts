/**
 * Whether the origin lets us write the queue's refs, found out by the one push that changes nothing for
 * anybody: a lock entry that says "free", appended to a free lock.
 */
import type { AgentqError } from "../errors.ts";
import { type Clock, systemClock } from "../platform/clock.ts";
import { lockCommit, readControl } from "./control.ts";
import { type Check, check, failed } from "./doctor-check.ts";
import { holderOf } from "./held-lock.ts";
import { faultOf, isTurnedDown, pushOnce, wordsOf } from "./push.ts";
import { openQueue, type Queue, type Snapshot } from "./snapshot.ts";

export interface PushCheckOptions {
  readonly namespace: string;
  readonly branch: string | null;
  readonly by: string;
  readonly signal?: AbortSignal;
  readonly clock?: Clock;
}

/** How often a push is tried whose answer was lost, or that another's move of the lock was in the way of. */
const PUSHES = 2;

/** Pushes, looks up what became of it, and tries once more where that is open. */
export async function pushCheck(
  queue: Queue,
  first: Snapshot,
  options: PushCheckOptions,
): Promise<Check> {
  const { names, origin } = queue;
  const clock = options.clock ?? systemClock;
  let snapshot = first;
  try {
    for (let pushes = 1;; pushes++) {
      if (holderOf(snapshot.lock) !== null) {
        return check(
          "push",
          "skip",
          `not tried: ${holderOf(snapshot.lock)} is landing now, or has gone quiet`,
        );
      }
      const old = snapshot.lockHead;
      const control = await readControl(queue, snapshot.lock, options.signal);
      const entry = lockCommit(old, { holder: null, by: options.by, at: clock.wall(), control });
      const pushed = await pushOnce(queue, {
        updates: [{ ref: names.lock, old, new: entry.oid }],
        commits: [entry],
        ...(old && { remoteHas: [old] }),
        ...(options.signal && { signal: options.signal }),
      });
      if (pushed.status === "won") {
        return check("push", "ok", `an atomic push to ${names.lock} is let through`);
      }
      const fault = faultOf(pushed);
      if (fault && isFinal(fault)) return check("push", "fail", wordsOf(fault), fault.hint);
      ({ snapshot } = await openQueue(origin, options));
      if (snapshot.lockHead === entry.oid) return tookEffect(queue, fault);
      if (pushes < PUSHES) continue;
      return pushed.status === "unknown"
        ? cameToNothing(queue, fault)
        : snapshot.lockHead === old
        ? stuck(queue)
        : check("push", "skip", "not tried: others move the lock all the time");
    }
  } catch (error) {
    options.signal?.throwIfAborted();
    return failed("push", error);
  }
}

/** The server's own answer, or a ref that stayed locked: nothing was lost on the way. */
function isFinal(fault: AgentqError): boolean {
  return isTurnedDown(fault) || fault.code === "ref-locked";
}

const because = (fault: AgentqError | undefined) => fault ? `: ${wordsOf(fault)}` : "";

function tookEffect({ names, origin }: Queue, fault: AgentqError | undefined): Check {
  return origin.kind === "file"
    ? check(
      "push",
      "warn",
      `a push to ${names.lock} took effect, and failed behind that${because(fault)}`,
      "Look at the disk that the repository lies on; run it again.",
    )
    : check(
      "push",
      "warn",
      `a push to ${names.lock} took effect, but its answer was lost`,
      "Look at the connection; run it again.",
    );
}

function cameToNothing({ names, origin }: Queue, fault: AgentqError | undefined): Check {
  return origin.kind === "file"
    ? check(
      "push",
      "fail",
      `pushes to ${names.lock} come to nothing${because(fault)}`,
      fault?.hint ?? "Look at the disk that the repository lies on: it may be full or read-only.",
    )
    : check(
      "push",
      "fail",
      `pushes to ${names.lock} come to nothing, and the origin doesn't say why${because(fault)}`,
      "Look at the connection and the origin's own log; its disk may be full or read-only.",
    );
}

/** What ends commands with `origin-stuck`. */
function stuck({ names }: Queue): Check {
  return check(
    "push",
    "fail",
    `the origin refuses pushes to ${names.lock} because it has moved, and it hasn't`,
    "A lock file may be left behind in the origin's refs; look for *.lock there.",
  );
}
