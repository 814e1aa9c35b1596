/** New objects kept in memory on top of a database that is only read. */
import { hashObject } from "../git/oid.ts";
import { commitInfo, type CommitReader } from "../git/history.ts";
import type { ObjectDatabase, ObjectType, Oid, RawObject } from "../git/types.ts";

/** An object that exists in the overlay alone. */
export interface NewObject {
  readonly oid: Oid;
  readonly type: ObjectType;
  readonly data: Uint8Array;
}

export interface Overlay extends ObjectDatabase, CommitReader {
  /** What was written and isn't in the database below, in the order of writing (blobs before trees). */
  newObjects(): readonly NewObject[];
}

/**
 * An object database that writes nothing to disk: a merge can be computed, judged and thrown away, or
 * its {@link Overlay.newObjects} stored.
 */
export function overlay(below: CommitReader): Overlay {
  const added = new Map<Oid, NewObject>();
  const read = (oid: Oid): RawObject => added.get(oid) ?? below.read(oid);
  const has = (oid: Oid): boolean => added.has(oid) || below.has(oid);
  const stat = (oid: Oid): { type: ObjectType; size: number } => {
    const own = added.get(oid);
    return own ? { type: own.type, size: own.data.length } : below.stat(oid);
  };
  return {
    read,
    has,
    stat,
    write(type: ObjectType, data: Uint8Array): Oid {
      const oid = hashObject(type, data);
      if (!added.has(oid) && !below.has(oid)) added.set(oid, { oid, type, data });
      return oid;
    },
    commitInfo: (oid) => commitInfo(added.has(oid) ? { read, has, stat } : below, oid),
    newObjects: () => [...added.values()],
  };
}
