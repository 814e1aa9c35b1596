/**
 * When a delivery may be taken back: its owner is proven gone, or its lease has run out. Pure, so that
 * every backend decides alike and every clock can be tried.
 *
 *   worker, proven gone ───────────────────────────────▶ owner-gone
 *   lease, same boot: monotonic time since the grant ≥ its length ──▶ lease-expired
 *   lease, other boot or machine: wall clock off the grant by ≥ its length, in either direction
 *                                                        ──▶ lease-expired
 *   anything else ──▶ held
 *
 * Off in either direction: a clock that was set back would otherwise hold the lease for as long as
 * it was set back, and one delivery too many is what at-least-once allows; never one is not.
 */
import type { LeaseTime } from "./clock.ts";
import { parseOwner } from "./owner.ts";

/** What a backend keeps of the current delivery. */
export interface Lease {
  /** Null: taken by a program that keeps no leases. */
  readonly owner: string | null;
  readonly grantedBoot: number | null;
  /** Unix milliseconds. */
  readonly grantedWall: number;
  readonly lengthMs: number | null;
}

export type Verdict = "held" | "owner-gone" | "lease-expired";

/** The lease that is assumed where a program without leases took the message: an hour. */
export const FOREIGN_LEASE_MS = 3_600_000;

/**
 * Judges a lease at `now`. `staleMs` shortens the leases that nobody renews; a worker's never.
 * Ask it under the lock that guards the delivery.
 */
export function judgeLease(lease: Lease, now: LeaseTime, staleMs?: number): Verdict {
  const owner = lease.owner === null ? { kind: "foreign" as const } : parseOwner(lease.owner);
  if (owner.kind === "worker" && owner.liveness() === "gone") return "owner-gone";
  const full = lease.lengthMs ?? FOREIGN_LEASE_MS;
  const length = owner.kind === "worker" || staleMs === undefined
    ? full
    : lease.lengthMs === null
    ? staleMs
    : Math.min(full, staleMs);
  return elapsed(lease, owner, now) >= length ? "lease-expired" : "held";
}

function elapsed(lease: Lease, owner: ReturnType<typeof parseOwner>, now: LeaseTime): number {
  const sameBoot = owner.kind !== "foreign" && owner.bootId !== null &&
    owner.bootId === now.bootId && lease.grantedBoot !== null;
  return sameBoot ? now.boot - lease.grantedBoot! : Math.abs(now.wall - lease.grantedWall);
}
