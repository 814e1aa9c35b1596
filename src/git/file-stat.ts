/**
 * What the index remembers about a file so that it needn't be read again: "the same stat" means "the
 * same content", except for the files that changed in the same instant as the index (racily clean).
 */
import type { BigIntStats } from "node:fs";

/** The stat fields of an index entry, each cut to 32 bits as the format has it. */
export interface StatData {
  readonly ctimeSec: number;
  readonly ctimeNsec: number;
  readonly mtimeSec: number;
  readonly mtimeNsec: number;
  readonly dev: number;
  readonly ino: number;
  readonly uid: number;
  readonly gid: number;
  readonly size: number;
}

/** A moment as file systems tell it. */
export interface Timestamp {
  readonly sec: number;
  readonly nsec: number;
}

/** Says "read the file": what git writes for an entry whose file nobody has looked at. */
export const UNKNOWN_STAT: StatData = {
  ctimeSec: 0,
  ctimeNsec: 0,
  mtimeSec: 0,
  mtimeNsec: 0,
  dev: 0,
  ino: 0,
  uid: 0,
  gid: 0,
  size: 0,
};

const BILLION = 1_000_000_000n;

export function statData(stat: BigIntStats): StatData {
  return {
    ctimeSec: Number(stat.ctimeNs / BILLION) >>> 0,
    ctimeNsec: Number(stat.ctimeNs % BILLION),
    mtimeSec: Number(stat.mtimeNs / BILLION) >>> 0,
    mtimeNsec: Number(stat.mtimeNs % BILLION),
    dev: low32(stat.dev),
    ino: low32(stat.ino),
    uid: low32(stat.uid),
    gid: low32(stat.gid),
    size: low32(stat.size),
  };
}

function low32(value: bigint | undefined): number {
  return value === undefined ? 0 : Number(BigInt.asUintN(32, value));
}

export function timestampOf(stat: BigIntStats): Timestamp {
  return { sec: Number(stat.mtimeNs / BILLION), nsec: Number(stat.mtimeNs % BILLION) };
}

/** How much of a stat is believed. */
export interface StatTrust {
  /** core.trustctime (default true). */
  readonly ctime: boolean;
  /** False for core.checkStat=minimal: only size and whole seconds of mtime count. */
  readonly full: boolean;
}

export const FULL_TRUST: StatTrust = { ctime: true, full: true };

/**
 * Whether a file is as the entry remembers it. The device is not compared: it changes from mount to
 * mount. Nanoseconds are, where the entry has any; being stricter than git only means reading a file.
 */
export function sameStat(entry: StatData, file: StatData, trust: StatTrust): boolean {
  if (entry.size !== file.size || entry.mtimeSec !== file.mtimeSec) return false;
  if (!trust.full) return true;
  if (entry.mtimeNsec !== file.mtimeNsec && entry.mtimeNsec !== 0) return false;
  if (trust.ctime) {
    if (entry.ctimeSec !== file.ctimeSec) return false;
    if (entry.ctimeNsec !== file.ctimeNsec && entry.ctimeNsec !== 0) return false;
  }
  return entry.ino === file.ino && entry.uid === file.uid && entry.gid === file.gid;
}

/** {@link sameStat} for a stat as the system gave it: most files are the same, and needn't be taken apart. */
export function isStatOf(entry: StatData, stat: BigIntStats, trust: StatTrust): boolean {
  if (!trust.full) return sameStat(entry, statData(stat), trust);
  return low32(stat.size) === entry.size &&
    isMoment(stat.mtimeNs, entry.mtimeSec, entry.mtimeNsec) &&
    (!trust.ctime || isMoment(stat.ctimeNs, entry.ctimeSec, entry.ctimeNsec)) &&
    low32(stat.ino) === entry.ino && low32(stat.uid) === entry.uid && low32(stat.gid) === entry.gid;
}

/** Whether `ns` since 1970 is that second and that nanosecond; any of the second's where that is 0. */
function isMoment(ns: bigint, sec: number, nsec: number): boolean {
  if (nsec === 0) return Number(ns / BILLION) >>> 0 === sec;
  // Without dividing: the last 32 bits exactly, and those before them as far as a number has them.
  return Number(BigInt.asUintN(32, ns)) === (Math.imul(sec, 1_000_000_000) + nsec) >>> 0 &&
    Math.abs(Number(ns) - (sec * 1e9 + nsec)) < 2 ** 31;
}

/**
 * Whether a file with this stat may have been written after the index without showing it: its mtime
 * is not before the index's own. Where a clock without fractions is seen, seconds are compared.
 */
export function isRacy(entry: StatData, index: Timestamp | null): boolean {
  if (index === null) return true;
  if (entry.mtimeSec !== index.sec) return entry.mtimeSec > index.sec;
  return entry.mtimeNsec === 0 || index.nsec === 0 || entry.mtimeNsec >= index.nsec;
}
