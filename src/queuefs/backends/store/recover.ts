/** Taking back what owners can't settle any more, from the store's claims. */
import type { Store } from "../../../store/mod.ts";
import type { LeaseClock, LeaseTime } from "../../clock.ts";
import type { Recovered, RecoverOptions } from "../../contract.ts";
import { recoverWatching } from "../../watch.ts";
import { leaseOf } from "./leases.ts";

/** Recovers one queue, or with null all. Takes as long as a renewal may where a worker's lease has run out. */
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
    const returned = await store.release((message) => {
      const { queue, id, receipt } = message;
      const lease = leaseOf(message);
      // Claimed by a user of the store who keeps no leases: nothing tells its age.
      const why = lease === null ? (options.staleMs === 0 ? "lease-expired" : null) : mayTake(
        `${queue} ${id} ${receipt.generation} ${receipt.delivery}`,
        lease,
        now ??= clock(),
      );
      if (why === null) return false;
      chosen.push({ queue, id, why });
      return true;
    }, { countAttempt: true, ...(queue === null ? {} : { queue }) });
    return chosen.map((each, i) => ({ ...each, outcome: returned[i]!.outcome }));
  });
}
