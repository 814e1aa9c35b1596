/**
 * Packs, read by position.
 *
 * An entry is a header (type, size), for deltas where the base is (a distance back, or an id), and a
 * zlib stream. A chain of deltas is followed with a list, not by recursion, down to the first base that
 * is whole or cached, and applied upwards again. Nothing is ever read to the end "to be sure": zlib's
 * own checksum and the sizes in header and delta must fit, or the pack is corrupt.
 */
import { Buffer } from "node:buffer";
import { AgentqError } from "../errors.ts";
import { nodeZlib } from "../platform/builtins.ts";
import { inflateQuickly } from "../platform/compress.ts";
import type { BoundedCache } from "./bounded-cache.ts";
import { applyDelta, deltaResultSize } from "./delta.ts";
import { openPackIndex, type PackIndex } from "./pack-index.ts";
import type { SliceFile, SlicePool } from "./slices.ts";
import type { ObjectType, Oid, RawObject } from "./types.ts";

const TYPES: readonly (ObjectType | null)[] = [null, "commit", "tree", "blob", "tag"];
const OFS_DELTA = 6;
const REF_DELTA = 7;
/** Longest header: ten bytes of size, then ten of distance or twenty of id. */
const HEADER = 32;

export interface Pack {
  /** Path of the `.pack` file. */
  readonly path: string;
  index(): PackIndex;
  read(offset: number): RawObject;
  stat(offset: number): { type: ObjectType; size: number };
  close(): void;
}

interface Entry {
  readonly offset: number;
  readonly type: number;
  /** Size of the inflated stream: the object's, or the delta's. */
  readonly size: number;
  /** Where the zlib stream begins. */
  readonly stream: number;
  /** Offset of the base, for deltas. */
  readonly base: number;
}

export function openPack(path: string, pool: SlicePool, cache: BoundedCache): Pack {
  const file: SliceFile = pool.open(path);
  const bases = cache.part<RawObject>();
  const indexPath = path.replace(/\.pack$/, ".idx");
  const indexFile = pool.open(indexPath);
  let index: PackIndex | undefined;
  let checked = false;
  const corrupt = (offset: number, what: string, cause?: unknown) =>
    new AgentqError("repository-corrupt", `Pack ${path} ${what} at offset ${offset}.`, {
      cause,
      details: { path, offset },
    });

  function check(): void {
    const head = file.window(0, 12);
    if (
      head.length < 12 || head.toString("latin1", 0, 4) !== "PACK" ||
      ![2, 3].includes(head.readUInt32BE(4))
    ) throw corrupt(0, "is not a pack of version 2 or 3");
    if (head.readUInt32BE(8) !== getIndex().count) throw corrupt(8, "does not fit its index");
    checked = true;
  }

  function getIndex(): PackIndex {
    return index ??= openPackIndex(indexFile);
  }

  function entryAt(offset: number): Entry {
    if (!checked) check();
    const head = file.window(offset, HEADER);
    let at = 0;
    let byte = head[at++];
    if (byte === undefined) throw corrupt(offset, "ends");
    const type = (byte >> 4) & 7;
    let size = byte & 15;
    for (let scale = 16; byte >= 0x80; scale *= 128) {
      byte = head[at++];
      if (byte === undefined || scale > 2 ** 45) throw corrupt(offset, "has a malformed header");
      size += (byte & 0x7f) * scale;
    }
    let base = -1;
    if (type === OFS_DELTA) {
      let distance = 0;
      do {
        byte = head[at++];
        if (byte === undefined || distance > 2 ** 45) throw corrupt(offset, "has a malformed base");
        distance = distance * 128 + (byte & 0x7f) + (byte >= 0x80 ? 1 : 0);
      } while (byte >= 0x80);
      base = offset - distance;
      if (base < 12 || distance === 0) throw corrupt(offset, "refers outside itself");
    } else if (type === REF_DELTA) {
      if (at + 20 > head.length) throw corrupt(offset, "ends");
      const oid: Oid = head.toString("hex", at, at + 20);
      at += 20;
      base = getIndex().find(oid);
      if (base < 0) throw corrupt(offset, `lacks the delta base ${oid}`);
    } else if (!TYPES[type]) {
      throw corrupt(offset, `has an entry of type ${type}`);
    }
    return { offset, type, size, stream: offset + at, base };
  }

  function inflate(entry: Entry): Buffer {
    const { offset, size, stream } = entry;
    // What zlib can need for this size, and room for streams that were flushed more often.
    let room = size + (size >>> 9) + 64;
    for (;;) {
      const input = file.window(stream, room);
      const quick = inflateQuickly(input);
      if (quick?.length === size) return quick;
      try {
        const data = nodeZlib().inflateSync(input, {
          chunkSize: Math.max(64, size + 8),
          maxOutputLength: Math.max(1, size),
        });
        if (data.length !== size) throw corrupt(offset, "has an entry of the wrong size");
        return data;
      } catch (cause) {
        if (cause instanceof AgentqError) throw cause;
        const code = (cause as { code?: string }).code;
        if (code !== "Z_BUF_ERROR" || input.length < room) {
          throw corrupt(offset, `does not inflate (${code ?? "unknown"})`, cause);
        }
        room = room * 2 + 4096;
      }
    }
  }

  function read(offset: number): RawObject {
    const chain: Entry[] = [];
    const seen = new Set<number>();
    let at = offset;
    let object: RawObject | undefined;
    while (!object) {
      object = bases.get(at);
      if (object) break;
      const entry = entryAt(at);
      const type = TYPES[entry.type];
      if (type) {
        object = { type, data: inflate(entry) };
        if (chain.length > 0) bases.set(at, object, object.data.length);
      } else {
        if (seen.has(at)) throw corrupt(offset, "has a delta that is its own base");
        seen.add(at);
        chain.push(entry);
        at = entry.base;
      }
    }
    for (let i = chain.length - 1; i >= 0; i--) {
      const entry = chain[i]!;
      const data = applyDelta(object.data, inflate(entry));
      if (!data) throw corrupt(entry.offset, "has a delta that does not fit its base");
      object = { type: object.type, data };
      // The object asked for is kept too: what is read next is often a delta against it.
      bases.set(entry.offset, object, data.length);
    }
    return object;
  }

  function stat(offset: number): { type: ObjectType; size: number } {
    const cached = bases.get(offset);
    if (cached) return { type: cached.type, size: cached.data.length };
    let entry = entryAt(offset);
    let size = entry.size;
    if (!TYPES[entry.type]) {
      // The sizes stand in the first bytes, but a block may begin with a table longer than a few.
      let result: number | null = null;
      for (let room = 64; result === null; room *= 8) {
        const input = file.window(entry.stream, room);
        try {
          const start = nodeZlib().inflateSync(input, {
            finishFlush: nodeZlib().constants.Z_SYNC_FLUSH,
            chunkSize: 1024,
          });
          result = deltaResultSize(start);
        } catch (cause) {
          throw corrupt(offset, "does not inflate", cause);
        }
        if (result === null && input.length < room) throw corrupt(offset, "has a malformed delta");
        if (room > 4096 && result === null) throw corrupt(offset, "has a malformed delta");
      }
      size = result;
    }
    for (let steps = 0; !TYPES[entry.type]; steps++) {
      if (steps > 1_000_000) throw corrupt(offset, "has a delta that is its own base");
      entry = entryAt(entry.base);
    }
    return { type: TYPES[entry.type]!, size };
  }

  return {
    path,
    index: getIndex,
    read,
    stat,
    close() {
      file.close();
      indexFile.close();
      bases.clear();
      index = undefined;
      checked = false;
    },
  };
}
