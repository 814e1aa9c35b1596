/** Landing what is queued, whoever it is of. */
import { throwIfAborted } from "../platform/clock.ts";
import { createWatcher, type DutyOptions, isProgress, isUnfinished, type Turn } from "./duty.ts";
import { holderOf } from "./held-lock.ts";
import { createPatience, createPoller, isOfConnection } from "./patience.ts";
import { type Queue, readSnapshot, type Snapshot } from "./snapshot.ts";
import { createTeller } from "./teller.ts";

/** Why `landQueue` came back. */
export type LandEnd =
  | { readonly why: "idle" | "max" }
  | { readonly why: "paused"; readonly by: string; readonly reason: string | null }
  | { readonly why: "left"; readonly ticket: number; readonly because: string };

/**
 * Lands what is queued. Comes back when nothing is left, when landing is paused or the next ticket is
 * not for this lander, or after `max` results; with `watch` only after `max`, or when aborted.
 */
export async function landQueue(
  queue: Queue,
  snapshot: Snapshot,
  options: DutyOptions & { readonly watch: boolean; readonly max?: number },
): Promise<LandEnd> {
  let count = 0;
  const counting: DutyOptions = {
    ...options,
    onResult: (entry) => {
      count++;
      options.onResult?.(entry);
    },
  };
  const watcher = createWatcher(queue, counting);
  const next = createPoller(queue, counting);
  const landing = createPatience(counting, isOfConnection);
  const say = createTeller(options);
  for (;;) {
    const left = options.max === undefined ? undefined : options.max - count;
    if (left !== undefined && left <= 0) return { why: "max" };
    let fresh: Snapshot | null = null;
    let pause = 0;
    try {
      const nothing = snapshot.unacked === 0 &&
        !await isUnfinished(queue, snapshot, options.signal);
      // Who finds nothing to land would leave the dead one's locks to the next push.
      if (nothing && holderOf(snapshot.lock) !== null) await queue.origin.tidy?.(refsOf(queue));
      const turn: Turn = nothing
        ? { why: "idle" }
        : await watcher.turn(snapshot, left === undefined ? {} : { max: left });
      if (!options.watch) {
        if (turn.why === "paused" || turn.why === "left") return turn;
        if (turn.why === "idle") return { why: "idle" };
      }
      say(turn, snapshot, null);
      throwIfAborted(options.signal);
      if (isProgress(turn) && !nothing) fresh = await readSnapshot(queue, options.signal);
      landing.good();
    } catch (error) {
      pause = landing.bear(error);
    }
    snapshot = fresh ?? await next(Infinity, pause);
  }
}

const refsOf = ({ names }: Queue): string[] => [names.branch, names.queue, names.done, names.lock];
