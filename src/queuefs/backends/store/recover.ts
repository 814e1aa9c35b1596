/** Taking back what owners can't settle any more, from the store's claims. */
import { isAgentqError } from "../../../errors.ts";
import type { Receipt, Store } from "../../../store/mod.ts";
import type { LeaseClock, LeaseTime } from "../../clock.ts";
import type { Recovered, RecoverOptions } from "../../contract.ts";
import { recoverWatching } from "../../watch.ts";
import { leaseOf, seenLease, seenNote } from "./leases.ts";

/**
 * Recovers one queue, or with null all. Takes as long as a renewal may where a worker's lease has run out.
 *
 * A claim without a note is another program's. Its time begins when it is seen here first, which is noted on it: its
 * holder's receipt stays good. One with a note that is none of ours belongs to a program that keeps its own account
 * (agentq's submissions): nothing takes it back but `staleMs` 0.
 */
export async function recoverStore(
  store: Store,
  clock: LeaseClock,
  queue: string | null,
  options: RecoverOptions,
): Promise<Recovered[]> {
  // The common case, nothing claimed, takes no lock.
  const counts = (await store.snapshot()).queues;
  const claimed = queue === null
    ? [...counts.values()].some(({ processing }) => processing > 0)
    : (counts.get(queue)?.processing ?? 0) > 0;
  if (!claimed) return [];
  return await recoverWatching(options, async (mayTake) => {
    let now: LeaseTime | undefined;
    const chosen: Omit<Recovered, "outcome">[] = [];
    const unseen: Receipt[] = [];
    const returned = await store.release((message) => {
      const { queue, id, receipt } = message;
      const lease = leaseOf(message) ?? seenLease(message);
      const why = lease === null ? (options.staleMs === 0 ? "lease-expired" : null) : mayTake(
        `${queue} ${id} ${receipt.generation} ${receipt.delivery}`,
        lease,
        now ??= clock(),
      );
      if (why === null) {
        if (lease === null && message.reference.owner === undefined) unseen.push(receipt);
        return false;
      }
      chosen.push({ queue, id, why });
      return true;
    }, {
      countAttempt: true,
      ...(queue === null ? {} : { queue }),
      ...(options.signal === undefined ? {} : { signal: options.signal }),
    });
    await noteSeen(store, unseen, clock);
    return chosen.map((each, i) => ({ ...each, outcome: returned[i]!.outcome }));
  });
}

/** All in one commit; each by itself where some were settled meanwhile. */
async function noteSeen(
  store: Store,
  receipts: readonly Receipt[],
  clock: LeaseClock,
): Promise<void> {
  const note = (some: readonly Receipt[]) =>
    store.renew(some, (owner) => owner ?? seenNote(clock())).then(() => true, (error) => {
      if (!isAgentqError(error, "stale-generation")) throw error;
      return false;
    });
  if (receipts.length === 0 || await note(receipts)) return;
  for (const receipt of receipts) await note([receipt]);
}
