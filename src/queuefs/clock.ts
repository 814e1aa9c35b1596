/**
 * The time that leases are measured in.
 *
 * Wall clocks jump. Within one boot of one machine every process can read the same monotonic clock, the
 * time since boot, so leases are measured by that; the wall-clock time is kept beside it for the case
 * that the machine was booted again in between, or that the reader is another machine.
 */
import { Buffer } from "node:buffer";
import { openSync, readSync } from "node:fs";
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

/** Kept open, since every delivery asks for the time; null: there is none. */
let uptimeFile: number | null | undefined;
const uptimeText = Buffer.alloc(64);

/** /proc/uptime counts through suspend and ticks in hundredths; elsewhere whole seconds must do. */
function sinceBoot(): number {
  try {
    if (uptimeFile === undefined) uptimeFile = openSync("/proc/uptime", "r");
    if (uptimeFile !== null) {
      const length = readSync(uptimeFile, uptimeText, 0, uptimeText.length, 0);
      const seconds = parseFloat(uptimeText.toString("latin1", 0, length));
      if (seconds >= 0) return Math.round(seconds * 1000);
    }
  } catch {
    // Not Linux, or not to be read here.
  }
  uptimeFile = null;
  return Math.round(uptime() * 1000);
}
