/** A ticket that somebody has cancelled while it was waited for. */
import { readControl } from "../src/landing/control.ts";
import { type Queue, readSnapshot } from "../src/landing/snapshot.ts";
import type { Context } from "./context.ts";

/** True for a ticket without a result that never lands any more; false where the origin can't be asked. */
export async function isToBeCancelled(
  { signal }: Context,
  queue: Queue,
  ticket: number,
): Promise<boolean> {
  try {
    const now = await readSnapshot(queue, signal);
    return (await readControl(queue, now.lock, signal)).cancelled.includes(ticket);
  } catch {
    signal.throwIfAborted();
    return false;
  }
}
