/**
 * From the entries of a pack to its objects: one scan that inflates each entry once, then the deltas,
 * depth first from each base outwards.
 */
import type { Buffer } from "node:buffer";
import { throwIfAborted } from "../platform/clock.ts";
import { applyDelta } from "./delta.ts";
import { hashObject } from "./oid.ts";
import { type Entry, entryAt, hashStreamed, inflate, TYPES } from "./pack-entry.ts";
import { corrupt, crcOf, type PackSource } from "./pack-source.ts";
import type { PackedEntry } from "./pack-write.ts";
import type { ObjectReader, ObjectType, Oid, RawObject } from "./types.ts";

/** Whole objects above this are hashed as they inflate, never held. */
const STREAMED = 16 * 1024 * 1024;
/** Bytes of bases kept while their deltas are resolved; more are made again when needed. */
const BASE_BUDGET = 128 * 1024 * 1024;

export interface ResolveOptions {
  /** Where bases that a thin pack leaves out are found. */
  readonly bases?: ObjectReader;
  readonly signal?: AbortSignal;
  /** Who sent it, for messages. */
  readonly from?: string;
}

/** Given every object with its content; null where nobody needs the contents. */
export type OnObject = (oid: Oid, object: RawObject) => void;

export interface ResolvedEntry extends PackedEntry {
  /** A base from outside that the pack must be completed with. */
  readonly added?: RawObject;
}

/** Every object of a pack, and the bases from outside that it needs. @throws `protocol-error` */
export async function resolveAll(
  source: PackSource,
  options: ResolveOptions,
  onObject: OnObject | null,
): Promise<ResolvedEntry[]> {
  const { from, signal } = options;
  const head = source.read(0, 12);
  if (head.toString("latin1", 0, 4) !== "PACK" || ![2, 3].includes(head.readUInt32BE(4))) {
    throw corrupt(from, "is not a pack of version 2 or 3");
  }
  const count = head.readUInt32BE(8);
  const entries: Entry[] = [];
  const byOffset = new Map<number, Entry>();
  const children = new Map<number | Oid, Entry[]>();
  let offset = 12;
  let turn = 0;
  for (let i = 0; i < count; i++) {
    if ((i & 255) === 255) {
      throwIfAborted(signal);
      // A large pack must not keep timers (a lock's renewal) from running.
      if (performance.now() - turn > 50) {
        await new Promise((resume) => setTimeout(resume));
        turn = performance.now();
      }
    }
    const entry = entryAt(source, offset, from);
    let end: number;
    if (entry.base === null && entry.size > STREAMED && onObject === null) {
      end = await hashStreamed(source, entry, from);
    } else {
      const { data, consumed } = inflate(source, entry, from);
      end = entry.stream + consumed;
      entry.crc = crcOf(source, offset, end);
      const type = TYPES[entry.type];
      if (type) {
        entry.oid = hashObject(type, data);
        onObject?.(entry.oid, { type, data });
      }
    }
    entries.push(entry);
    byOffset.set(offset, entry);
    if (entry.base !== null) {
      const siblings = children.get(entry.base);
      if (siblings) siblings.push(entry);
      else children.set(entry.base, [entry]);
    }
    offset = end;
  }
  if (offset !== source.size - 20) throw corrupt(from, "does not end where it should");

  const added: { oid: Oid; object: RawObject }[] = [];
  if (children.size > 0) {
    const resolver = deltaResolver(source, children, from, onObject);
    for (const entry of entries) {
      const type = TYPES[entry.type];
      if (type && (children.has(entry.offset) || children.has(entry.oid!))) {
        resolver(entry.offset, entry.oid!, type, () => inflate(source, entry, from).data);
      }
      throwIfAborted(signal);
    }
    // What is left hangs on objects outside the pack, one of which may lead to another.
    for (const base of [...children.keys()]) {
      if (typeof base !== "string" || !children.has(base)) continue;
      if (!options.bases?.has(base)) continue;
      const object = options.bases.read(base);
      added.push({ oid: base, object });
      resolver(null, base, object.type, () => object.data);
    }
    if (entries.some(({ oid }) => oid === null)) {
      const left = [...children.keys()].find((base) => typeof base === "string");
      throw corrupt(from, left ? `lacks the delta base ${left}` : "has deltas without their base");
    }
  }
  return [
    ...entries.map(({ oid, offset, crc }) => ({ oid: oid!, offset, crc })),
    ...added.map(({ oid, object }) => ({ oid, offset: 0, crc: 0, added: object })),
  ];
}

interface Frame {
  readonly below: Frame | null;
  readonly make: () => Buffer | Uint8Array;
  data: Uint8Array | null;
  readonly pending: Entry[];
}

/** Resolves, depth first, everything that hangs on one base. */
function deltaResolver(
  source: PackSource,
  children: Map<number | Oid, Entry[]>,
  from: string | undefined,
  onObject: OnObject | null,
) {
  const take = (offset: number | null, oid: Oid): Entry[] => {
    const found = [
      ...(offset === null ? [] : children.get(offset) ?? []),
      ...children.get(oid) ?? [],
    ];
    if (offset !== null) children.delete(offset);
    children.delete(oid);
    return found;
  };
  return (offset: number | null, oid: Oid, type: ObjectType, make: () => Uint8Array): void => {
    const stack: Frame[] = [{ below: null, make, data: null, pending: take(offset, oid) }];
    let held = 0;
    const dataOf = (frame: Frame): Uint8Array => {
      if (frame.data === null) {
        frame.data = frame.make();
        held += frame.data.length;
      }
      return frame.data;
    };
    while (stack.length > 0) {
      const frame = stack.at(-1)!;
      const entry = frame.pending.pop();
      if (!entry) {
        if (frame.data) held -= frame.data.length;
        stack.pop();
        continue;
      }
      const apply = (): Buffer => {
        const result = applyDelta(dataOf(frame), inflate(source, entry, from).data);
        if (!result) throw corrupt(from, "has a delta that does not fit its base");
        return result;
      };
      const data = apply();
      entry.oid = hashObject(type, data);
      onObject?.(entry.oid, { type, data });
      const pending = take(entry.offset, entry.oid);
      if (pending.length === 0) continue;
      stack.push({ below: frame, make: apply, data, pending });
      held += data.length;
      for (const lower of stack) {
        if (held <= BASE_BUDGET || lower === stack.at(-1)) break;
        if (lower.data) held -= lower.data.length;
        lower.data = null;
      }
    }
  };
}
