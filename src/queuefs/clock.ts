/**
 * The time that leases are measured in.
 *
 * Wall clocks jump. Within one boot of one machine every process can read the same monotonic clock, the
 * time since boot, so leases are measured by that; the wall-clock time is kept beside it for the case
 * that the machine was booted again in between, or that the reader is another machine.
 */
import { readFileSync } from "node:fs";
import { uptime } from "node:os";
import { processIdentity } from "../platform/host.ts";

export interface LeaseTime {
  /** Milliseconds since boot. */
  readonly boot: number;
  /** Which boot; null: not known, so `boot` compares with nothing. */
  readonly bootId: string | null;
  /** Unix milliseconds. */
  readonly wall: number;
}

export type LeaseClock = () => LeaseTime;

/** Reads the clocks of this machine. */
export const systemClock: LeaseClock = () => ({
  boot: sinceBoot(),
  bootId: processIdentity().bootId,
  wall: Date.now(),
});

/** /proc/uptime counts through suspend and ticks in hundredths; elsewhere whole seconds must do. */
function sinceBoot(): number {
  try {
    return Math.round(parseFloat(readFileSync("/proc/uptime", "latin1")) * 1000);
  } catch {
    return Math.round(uptime() * 1000);
  }
}
