/**
 * Entries of the chains that this machine read lately, kept in one file between runs, so that a look at
 * a queue reads from the origin what is new since the last look and nothing else.
 *
 *     file   = "agentq entries 1\n" entry…, the last used first
 *     entry  = oid " " length, ten digits "\n" content of the commit
 *
 * Entries never change and are found by the hash of their content, which is checked: a file that is
 * torn, stale or forged can only make something be read again. So it is written without a sync, and
 * nothing goes wrong where it can't be.
 */
import { Buffer } from "node:buffer";
import { existsSync, renameSync, unlinkSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { hashObject, isOid } from "../git/oid.ts";
import type { Oid } from "../git/types.ts";
import { randomBytes } from "../platform/hash.ts";
import { makeBelow } from "../platform/make-below.ts";
import { readPlainFile } from "../platform/plain-file.ts";

export interface EntryCache {
  /** The content of commit `oid`; undefined when it isn't kept here. */
  get(oid: Oid): Uint8Array | undefined;
  /** Has a commit kept that was read from the origin. */
  put(oid: Oid, content: Uint8Array): void;
  /** Writes the file, if there is something new to write. Never fails. */
  save(): void;
}

const MAGIC = Buffer.from("agentq entries 1\n");
const HEADER_BYTES = 40 + 1 + 10 + 1;
/** A status lists 100 tickets; what is kept covers that and the results of this machine's tickets. */
const MAX_ENTRIES = 512;
const MAX_FILE_BYTES = 1024 * 1024;
/** A larger message is read again each time. */
const MAX_ENTRY_BYTES = 64 * 1024;

/** The cache in `file`, which is read when first needed. */
export function openEntryCache(file: string): EntryCache {
  let read: Map<Oid, Buffer> | null = null;
  const used = new Map<Oid, Uint8Array>();
  let fresh = false;
  // The state directory is made where it never was; one that was moved away during the run is not.
  const state = dirname(dirname(file));
  const base = existsSync(state) ? state : null;

  return {
    get(oid) {
      read ??= readEntries(file);
      const content = used.get(oid) ?? read.get(oid);
      if (content === undefined || used.has(oid)) return content;
      if (hashObject("commit", content) !== oid) {
        read.delete(oid);
        return undefined;
      }
      used.set(oid, content);
      return content;
    },
    put(oid, content) {
      if (content.length > MAX_ENTRY_BYTES || used.size >= MAX_ENTRIES || used.has(oid)) return;
      used.set(oid, content);
      fresh = true;
    },
    save() {
      if (!fresh) return;
      fresh = false;
      const parts: Uint8Array[] = [MAGIC];
      let bytes = MAGIC.length;
      for (const [oid, content] of new Map([...used, ...(read ?? readEntries(file))])) {
        bytes += HEADER_BYTES + content.length;
        if (parts.length > 2 * MAX_ENTRIES || bytes > MAX_FILE_BYTES) break;
        parts.push(Buffer.from(`${oid} ${String(content.length).padStart(10, "0")}\n`), content);
      }
      replace(file, base, Buffer.concat(parts));
    },
  };
}

function readEntries(file: string): Map<Oid, Buffer> {
  const entries = new Map<Oid, Buffer>();
  let data: Buffer<ArrayBuffer>;
  try {
    const bytes = readPlainFile(file, { limit: MAX_FILE_BYTES });
    if (bytes === null) return entries;
    data = Buffer.from(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.byteLength);
  } catch {
    return entries;
  }
  if (!data.subarray(0, MAGIC.length).equals(MAGIC)) return entries;
  for (let at = MAGIC.length; at + HEADER_BYTES <= data.length;) {
    const oid = data.toString("latin1", at, at + 40);
    const length = Number(data.toString("latin1", at + 41, at + 51));
    at += HEADER_BYTES;
    if (!isOid(oid) || !(length <= data.length - at)) break;
    entries.set(oid, data.subarray(at, at + length));
    at += length;
  }
  return entries;
}

function replace(file: string, base: string | null, data: Uint8Array): void {
  const part = `${file}.${randomBytes(6).toString("hex")}`;
  try {
    makeBelow(base, dirname(file), 0o700);
    writeFileSync(part, data, { mode: 0o600, flag: "wx" });
    renameSync(part, file);
  } catch {
    try {
      unlinkSync(part);
    } catch {
      // Never begun.
    }
  }
}
