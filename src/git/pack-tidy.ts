/**
 * Keeping the number of packs small. Every push and fetch of ours adds one small pack; when there are
 * many, their entries are copied, as they are, into one pack, and the small ones are removed.
 *
 *   list candidates ─▶ copy entries into tmp_pack ─▶ install durably ─▶ unlink .idx, then .pack
 *
 * Safe beside other processes that do the same, or gc: a pack is only removed once all its objects are
 * in one that this process has made durable; a candidate that vanishes meanwhile ends the attempt; a
 * reader that finds a pack gone lists the directory again, as git does for its own repacking. Packs
 * that say anything beyond their objects (.keep, .bitmap, .mtimes) are left alone, and so is a directory
 * with a multi-pack-index, which names its packs. Those of a promisor (.promisor) are put together by
 * themselves, into one that is marked like them.
 */
import { Buffer } from "node:buffer";
import { closeSync, fsyncSync, readdirSync, readFileSync, statSync } from "node:fs";
import { AgentqError, isAgentqError } from "../errors.ts";
import { crc32 } from "../platform/compress.ts";
import { createHash } from "../platform/hash.ts";
import { oidBytes } from "./oid.ts";
import { discard, installPack, type StoreOptions, temporaryFile, writeAll } from "./pack-store.ts";
import { type PackedEntry, packHeader } from "./pack-write.ts";

/** Small packs that may lie around before they are put together. */
const MANY = 32;
const OFS_DELTA = 6;
const REF_DELTA = 7;
/** A pack this large is no longer worth copying. */
const SMALL = 4 * 1024 * 1024;

interface Candidate {
  readonly name: string;
  readonly data: Buffer;
  /** Entries by offset. */
  readonly entries: readonly PackedEntry[];
}

/**
 * Puts the small packs of a directory together when there are many.
 * @returns how many packs were replaced by one
 */
export function tidyPacks(packDirectory: string, sharedMode = 0): number {
  return tidyKind(packDirectory, sharedMode, false) + tidyKind(packDirectory, sharedMode, true);
}

function tidyKind(packDirectory: string, sharedMode: number, promisor: boolean): number {
  const names = smallPacks(packDirectory, promisor);
  if (names === null || names.length < MANY) return 0;
  const candidates: Candidate[] = [];
  try {
    for (const name of names) {
      const candidate = readCandidate(packDirectory, name);
      if (candidate) candidates.push(candidate);
    }
    if (candidates.length < 2) return 0;
    combine(packDirectory, candidates, { sharedMode, promisor });
    for (const { name } of candidates) {
      // Without its index nobody looks for the pack.
      for (const suffix of ["idx", "rev", "pack", "promisor"]) {
        discard(`${packDirectory}/${name}.${suffix}`);
      }
    }
    return candidates.length;
  } catch (error) {
    // Another process tidied the same packs, or repacked: nothing is lost, and it was only tidying.
    const cause = isAgentqError(error) ? error.cause : error;
    if ((cause as { code?: string } | undefined)?.code === "ENOENT") return 0;
    throw error;
  }
}

/** Names (`pack-…`, without suffix) of complete small packs; null when the directory is off limits. */
function smallPacks(packDirectory: string, promisor: boolean): string[] | null {
  let files: string[];
  try {
    files = readdirSync(packDirectory);
  } catch {
    return null;
  }
  if (files.length < 2 * MANY) return [];
  const suffixes = new Map<string, string[]>();
  for (const file of files) {
    if (file.startsWith("multi-pack-index")) return null;
    const match = /^(pack-[0-9a-f]{40})\.(.+)$/.exec(file);
    if (!match) continue;
    const list = suffixes.get(match[1]!);
    if (list) list.push(match[2]!);
    else suffixes.set(match[1]!, [match[2]!]);
  }
  return [...suffixes].filter(([name, has]) =>
    has.includes("idx") && has.includes("pack") &&
    has.includes("promisor") === promisor &&
    has.every((suffix) => ["idx", "pack", "rev", "promisor"].includes(suffix)) &&
    (statSync(`${packDirectory}/${name}.pack`, { throwIfNoEntry: false })?.size ?? SMALL) < SMALL
  ).map(([name]) => name).sort();
}

/** The pack with its entries, or null when it isn't what its index says. */
function readCandidate(packDirectory: string, name: string): Candidate | null {
  const data = readFileSync(`${packDirectory}/${name}.pack`);
  const index = readFileSync(`${packDirectory}/${name}.idx`);
  if (index.length < 1072 || index.readUInt32BE(0) !== 0xff744f63 || index.readUInt32BE(4) !== 2) {
    return null;
  }
  const count = index.readUInt32BE(8 + 255 * 4);
  const end = data.length - 20;
  if (data.length < 32 || data.readUInt32BE(8) !== count) return null;
  if (index.length !== 1032 + count * 28 + 40) return null;
  if (!createHash("sha1").update(data.subarray(0, end)).digest().equals(data.subarray(end))) {
    return null;
  }
  const entries: PackedEntry[] = [];
  for (let i = 0; i < count; i++) {
    const offset = index.readUInt32BE(1032 + count * 24 + i * 4);
    if (offset < 12 || offset >= end) return null;
    entries.push({
      oid: index.toString("hex", 1032 + i * 20, 1032 + i * 20 + 20),
      offset,
      crc: index.readUInt32BE(1032 + count * 20 + i * 4),
    });
  }
  entries.sort((a, b) => a.offset - b.offset);
  const intact = entries.every(({ offset, crc }, i) =>
    crc32(data.subarray(offset, entries[i + 1]?.offset ?? end)) >>> 0 === crc
  );
  return intact ? { name, data, entries } : null;
}

function combine(
  packDirectory: string,
  candidates: readonly Candidate[],
  options: StoreOptions,
): void {
  const chunks: Buffer[] = [];
  const entries = new Map<string, PackedEntry>();
  let offset = 12;
  for (const { data, entries: own } of candidates) {
    const byOffset = new Map(own.map((entry) => [entry.offset, entry.oid]));
    for (const [i, entry] of own.entries()) {
      // Taken from the first pack that has it: so are all bases, and no circle of deltas can arise.
      if (entries.has(entry.oid)) continue;
      const end = own[i + 1]?.offset ?? data.length - 20;
      const chunk = movable(data, entry.offset, end, byOffset);
      entries.set(entry.oid, { oid: entry.oid, offset, crc: crc32(chunk) });
      chunks.push(chunk);
      offset += chunk.length;
    }
  }
  const body = Buffer.concat([packHeader(entries.size), ...chunks]);
  const checksum = createHash("sha1").update(body).digest();
  const { path, fd } = temporaryFile(packDirectory, "pack");
  try {
    try {
      writeAll(fd, Buffer.concat([body, checksum]));
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    installPack(packDirectory, path, checksum, [...entries.values()], options);
  } catch (error) {
    discard(path);
    throw error;
  }
}

/** An entry's bytes; a delta that names its base by distance is made to name it by id. */
function movable(
  data: Buffer,
  start: number,
  end: number,
  byOffset: ReadonlyMap<number, string>,
): Buffer {
  if (((data[start]! >> 4) & 7) !== OFS_DELTA) return data.subarray(start, end);
  let at = start;
  while (data[at]! >= 0x80) at++;
  const header = Buffer.from(data.subarray(start, ++at));
  header[0] = (header[0]! & 0x8f) | (REF_DELTA << 4);
  let distance = data[at]! & 0x7f;
  while (data[at++]! >= 0x80) distance = (distance + 1) * 128 + (data[at]! & 0x7f);
  const base = byOffset.get(start - distance);
  if (base === undefined) {
    throw new AgentqError("repository-corrupt", "A pack refers outside itself.");
  }
  return Buffer.concat([header, oidBytes(base), data.subarray(at, end)]);
}
