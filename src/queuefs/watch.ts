/**
 * Recovery in two looks. A worker renews its leases while it runs; one that has run out all the same is a
 * wedged worker's, or that of one which couldn't renew: the machine was asleep or its processes were frozen,
 * somebody held the lock for long, a server's clock was set forward. Nothing tells these apart but what
 * comes next. So such a lease is watched for half its length, longer than a worker takes to its next
 * renewal, and taken only where it is still as it was.
 *
 * ```
 *   owner proven gone, or a lease that nobody renews ─▶ taken at the first look
 *   worker's lease run out ─▶ watched ─┬─ renewed, settled, taken by another ─▶ left alone
 *                                      └─ as it was ─────────────────────────▶ taken
 * ```
 */
import { systemClock } from "../platform/clock.ts";
import type { LeaseTime } from "./clock.ts";
import type { Recovered, RecoverOptions } from "./contract.ts";
import { judgeLease, type Lease, type Verdict } from "./lease.ts";
import { parseOwner } from "./owner.ts";

/** Whether the delivery of this name, under this lease, is to be taken back, and why. */
export type MayTake = (delivery: string, lease: Lease, now: LeaseTime) => Recovered["why"] | null;

/**
 * Recovers by `look`, which asks about every delivery under the lock that guards it and takes back what it is
 * told to. It is called again where leases had to be watched.
 */
export async function recoverWatching(
  options: RecoverOptions,
  look: (mayTake: MayTake) => Recovered[] | Promise<Recovered[]>,
): Promise<Recovered[]> {
  const watched = new Set<string>();
  let longest = 0;
  const asItIs = (delivery: string, { grantedBoot, grantedWall, lengthMs }: Lease) =>
    `${grantedBoot} ${grantedWall} ${lengthMs} ${delivery}`;
  const recovered = await look((delivery, lease, now) => {
    const why = judgeLease(lease, now, options.staleMs);
    if (why === "held") return null;
    const ms = watchMs(lease, why);
    if (ms === 0) return why;
    watched.add(asItIs(delivery, lease));
    longest = Math.max(longest, ms);
    return null;
  });
  if (watched.size === 0 || !await watch(longest, options.signal)) return recovered;
  const stayed = await look((delivery, lease, now) => {
    if (!watched.has(asItIs(delivery, lease))) return null;
    const why = judgeLease(lease, now, options.staleMs);
    return why === "held" ? null : why;
  });
  return [...recovered, ...stayed];
}

/** How long a lease must stay as it is before it is taken, in milliseconds; 0: it may be taken at once. */
export function watchMs({ owner, lengthMs }: Lease, why: Verdict): number {
  if (why !== "lease-expired" || owner === null || lengthMs === null) return 0;
  // A worker renews after a third of its lease; half leaves room for a slow answer.
  return parseOwner(owner).kind === "worker" ? Math.max(1, Math.ceil(lengthMs / 2)) : 0;
}

const PARTS = 10;

/**
 * Waits, by this process's own clock; false when aborted. In parts, since the clock runs on while processes are
 * frozen, which may be all of them: of such a time only one part passes.
 */
export async function watch(ms: number, signal?: AbortSignal): Promise<boolean> {
  for (let part = 0; part < PARTS; part++) {
    await systemClock.sleep(Math.ceil(ms / PARTS), signal).catch(() => {});
    if (signal?.aborted) return false;
  }
  return true;
}
