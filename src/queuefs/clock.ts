/**
 * The time that leases are measured in.
 *
 * Wall clocks jump. Within one boot of one machine every process can read the same monotonic clock, the
 * time since boot (the machine's own, in a time namespace too), so leases are measured by that; the
 * wall-clock time is kept beside it for the case that the machine was booted again in between, or that the
 * reader is another machine.
 */
import { Buffer } from "node:buffer";
import { openSync, readFileSync, readSync } from "node:fs";
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

/** Where {@link bootClock} reads, each in milliseconds. */
export interface ClockSource {
  /** Since boot, time asleep included. A read of it costs as much as a statement of SQLite. */
  uptime(): number;
  /** This process's own clock: from any beginning, set by nobody, still while the machine sleeps. */
  own(): number;
}

const READING_MS = 1000;
const DISAGREEMENT_MS = 10;

/**
 * The time since boot, in whole milliseconds, never going back. The uptime is read once a second;
 * in between this process's own clock counts on. Where that and the wall clock don't agree how much time has
 * passed, the machine slept or somebody set its clock: then the uptime is read too.
 */
export function bootClock(source: ClockSource): (wall: number) => number {
  let read: { uptime: number; own: number; wall: number } | undefined;
  let latest = 0;
  return (wall) => {
    const own = source.own();
    const passed = read === undefined ? READING_MS : own - read.own;
    if (passed >= READING_MS || Math.abs(wall - read!.wall - passed) >= DISAGREEMENT_MS) {
      read = { uptime: source.uptime(), own, wall };
    }
    // The uptime ticks in hundredths: it may be behind what was counted.
    return latest = Math.max(latest, Math.round(read!.uptime + own - read!.own));
  };
}

const sinceBoot = bootClock({ uptime: readUptime, own: () => performance.now() });

/** Reads the clocks of this machine. */
export const systemClock: LeaseClock = () => {
  const wall = Date.now();
  return { boot: sinceBoot(wall), bootId: processIdentity().bootId, wall };
};

/** Kept open; null: there is none. */
let uptimeFile: number | null | undefined;
const uptimeText = Buffer.alloc(64);
/** By how much a time namespace, which can't be left, shifts the uptime here. Read with the first uptime. */
let shiftedMs = 0;

/** Milliseconds that /proc/self/timens_offsets says the time since boot is ahead of the machine's. */
export function bootShift(offsets: string): number {
  const shift = /^boottime\s+(-?\d+)\s+(\d+)$/m.exec(offsets);
  return shift === null ? 0 : Number(shift[1]) * 1000 + Number(shift[2]) / 1e6;
}

function readShift(): number {
  try {
    return bootShift(readFileSync("/proc/self/timens_offsets", "latin1"));
  } catch {
    return 0; // A kernel without time namespaces.
  }
}

/** /proc/uptime counts through suspend and ticks in hundredths; elsewhere whole seconds must do. */
function readUptime(): number {
  try {
    if (uptimeFile === undefined) {
      uptimeFile = openSync("/proc/uptime", "r");
      shiftedMs = readShift();
    }
    if (uptimeFile !== null) {
      const length = readSync(uptimeFile, uptimeText, 0, uptimeText.length, 0);
      const seconds = parseFloat(uptimeText.toString("latin1", 0, length));
      if (seconds >= 0) return Math.round(seconds * 1000 - shiftedMs);
    }
  } catch {
    // Not Linux, or not to be read here.
  }
  uptimeFile = null;
  return Math.round(uptime() * 1000);
}
