/**
 * The objects a lander works with: the clone's, the origin's own where it lies on this machine, and
 * what landings made that isn't on disk here yet.
 *
 * A merge is computed from all of them and pushed from memory; the clone gets objects only when
 * something must be checked out, or when memory would grow.
 */
import { AgentqError, isAgentqError } from "../errors.ts";
import { parseCommitLinks } from "../git/commit.ts";
import { commitInfo, type CommitReader } from "../git/history.ts";
import type { ObjectStore } from "../git/odb.ts";
import { supplied } from "../git/supply.ts";
import { storeTree } from "../git/tree-store.ts";
import type { ObjectReader, Oid, Origin, RawObject } from "../git/types.ts";
import type { NewObject } from "../merge/overlay.ts";

export interface WorkingObjects extends CommitReader {
  /** Keeps new objects readable. */
  keep(objects: readonly NewObject[]): void;
  /** Makes sure that `oids`, and all they reach, can be read, fetching what is missing. */
  ensure(oids: readonly Oid[], signal?: AbortSignal): Promise<void>;
  /**
   * The same, in the clone itself, with everything kept so far and the whole of `tree`: for a checkout.
   */
  ensureOnDisk(oids: readonly Oid[], tree: Oid, signal?: AbortSignal): Promise<void>;
  /**
   * Runs `work` again and again until it misses no object that can be had: for partial clones, and for
   * what only the origin holds.
   */
  supplied<T>(work: () => T | Promise<T>, signal?: AbortSignal): Promise<T>;
}

/** How much may be kept in memory before it is written to the clone. */
const KEPT_BYTES = 16 * 1024 * 1024;

export function createWorkingObjects(origin: Origin, store: ObjectStore): WorkingObjects {
  const direct = origin.objects() as CommitReader | null;
  const kept = new Map<Oid, RawObject>();
  let keptBytes = 0;

  /** The origin's first: it is whole, where a clone may lack blobs or history. */
  const sources: CommitReader[] = direct ? [direct, store] : [store];

  function first<T>(oid: Oid, ask: (source: CommitReader) => T): T {
    for (const source of sources) {
      try {
        return ask(source);
      } catch (error) {
        if (!isAgentqError(error, "object-missing")) throw error;
      }
    }
    throw new AgentqError("object-missing", `object ${oid} is missing here and in the origin`, {
      details: { oid },
    });
  }

  function writeKept(): void {
    for (const { type, data } of kept.values()) store.write(type, data);
  }

  function forgetKept(): void {
    kept.clear();
    keptBytes = 0;
  }

  /** Brings single objects into the clone: from memory or the origin's files, else by fetching. */
  async function supply(oids: readonly Oid[], signal?: AbortSignal): Promise<void> {
    const here = direct ? oids.filter((oid) => objects.has(oid)) : [];
    store.batch(() => {
      for (const oid of here) {
        const { type, data } = objects.read(oid);
        store.write(type, data);
      }
    });
    const away = oids.filter((oid) => !here.includes(oid));
    if (away.length > 0) await origin.fetch(away, store, signal ? { signal } : {});
  }

  const objects: WorkingObjects = {
    has: (oid) => kept.has(oid) || sources.some((source) => source.has(oid)),
    read: (oid) => kept.get(oid) ?? first(oid, (source) => source.read(oid)),
    stat(oid) {
      const own = kept.get(oid);
      return own
        ? { type: own.type, size: own.data.length }
        : first(oid, (source) => source.stat(oid));
    },
    commitInfo(oid) {
      const own = kept.get(oid);
      if (!own) return first(oid, (source) => commitInfo(source, oid));
      const { parents, time } = parseCommitLinks(own.data, oid);
      return { parents, time, generation: Infinity };
    },
    keep(made) {
      for (const { oid, type, data } of made) {
        if (kept.has(oid)) continue;
        kept.set(oid, { type, data });
        keptBytes += data.length;
      }
      if (keptBytes <= KEPT_BYTES) return;
      store.batch(writeKept);
      forgetKept();
    },
    async ensure(oids, signal) {
      if (direct) return;
      const missing = oids.filter((oid) => !objects.has(oid));
      if (missing.length > 0) await origin.fetch(missing, store, signal ? { signal } : {});
    },
    async ensureOnDisk(oids, tree, signal) {
      const missing = oids.filter((oid) => !kept.has(oid) && !store.has(oid));
      if (missing.length > 0) await origin.fetch(missing, store, signal ? { signal } : {});
      // What a merge made may lie in the origin already, from a lander that died after sending it:
      // then it counted as nothing new. The tree and its commit become one pack, with one set of syncs.
      const write = () =>
        store.batch(() => {
          storeTree(store, objects, tree);
          writeKept();
        });
      await supplied(write, (absent) => supply(absent, signal));
      forgetKept();
    },
    supplied: (work, signal) => supplied(work, (oids) => supply(oids, signal)),
  };
  return objects;
}

/** A reader of one landing's new objects in front of the others. */
export function inFront(made: readonly NewObject[], behind: ObjectReader): ObjectReader {
  const own = new Map(made.map((object) => [object.oid, object]));
  return {
    has: (oid) => own.has(oid) || behind.has(oid),
    read: (oid) => own.get(oid) ?? behind.read(oid),
    stat(oid) {
      const object = own.get(oid);
      return object ? { type: object.type, size: object.data.length } : behind.stat(oid);
    },
  };
}
