/**
 * The object database of a repository: its packs and loose objects, and those of its alternates. What is
 * read is checked against its id; what is written is durable before it can be seen.
 */
import { utimesSync } from "node:fs";
import { AgentqError } from "../errors.ts";
import {
  freshenLoose,
  hasLoose,
  type LooseObject,
  prefixedLoose,
  readLoose,
  statLoose,
  writeLoose,
} from "./loose.ts";
import { createBoundedCache } from "./bounded-cache.ts";
import { type CommitGraph, type CommitInfo, openCommitGraph } from "./commit-graph.ts";
import { parseCommitLinks } from "./commit.ts";
import { hashObject } from "./oid.ts";
import { openObjectSources } from "./object-sources.ts";
import { storePack } from "./pack-store.ts";
import { tidyPacks } from "./pack-tidy.ts";
import { createSlicePool } from "./slices.ts";
import {
  EMPTY_TREE,
  type FetchTarget,
  type ObjectReader,
  type ObjectType,
  type Oid,
  type RawObject,
} from "./types.ts";

export interface ObjectStoreOptions {
  /** Bytes of pack slices, and of delta bases, that may be kept; 32 and 16 MiB unless given. */
  cacheBytes?: number;
  /** What `core.sharedRepository` adds to permission bits (0 for none). */
  sharedMode?: () => number;
  /** Further object directories, as GIT_ALTERNATE_OBJECT_DIRECTORIES lists them. */
  alternates?: string;
  /** The remote that promised the objects a partial clone lacks, for the error's message. */
  promisor?: () => string | null;
  /** Commits whose parents are not here on purpose; asked once between two calls of `refresh`. */
  shallow?: () => ReadonlySet<Oid>;
}

export interface ObjectStore extends FetchTarget {
  /** The repository's own object directory. */
  readonly directory: string;
  /** Reads the empty tree also where it is not stored, as git does; `has` tells whether it is. */
  read(oid: Oid): RawObject;
  /** Own directory first, then the alternates. */
  directories(): readonly string[];
  /**
   * Parents and time of a commit, from the commit-graph where it knows them, at a shallow boundary
   * without parents. @throws `object-missing`
   */
  commitInfo(oid: Oid): CommitInfo;
  /** Ids that begin with `prefix` (4 to 40 hex digits), at most `limit` of them. */
  prefixed(prefix: string, limit?: number): Oid[];
  /**
   * Runs `work`; what it writes is readable within at once and becomes durable together when `work`
   * returns: one small pack, three syncs. When `work` throws, what it wrote is dropped (beyond 32 MiB,
   * unreferenced parts may already be on disk). Until the outermost batch has returned, nothing may
   * refer to its objects.
   */
  batch<T>(work: () => T): T;
  /** Closes descriptors and drops caches; the next read opens them again. */
  close(): void;
}

const SLICE_BYTES = 32 * 1024 * 1024;
const BASE_BYTES = 16 * 1024 * 1024;
const COMMITS = 16_384;
/** What a batch holds in memory before it begins to write. */
const BATCH_BYTES = 32 * 1024 * 1024;

export function openObjectStore(objectsDir: string, options: ObjectStoreOptions = {}): ObjectStore {
  const pool = createSlicePool(options.cacheBytes ?? SLICE_BYTES);
  const bases = createBoundedCache(options.cacheBytes ?? BASE_BYTES);
  /** By id, since walks come by the same recent commits again and again. Weighed in entries. */
  const commits = createBoundedCache(COMMITS).part<CommitInfo, Oid>();
  const sources = openObjectSources(objectsDir, pool, bases, options.alternates);
  let shallow: ReadonlySet<Oid> | null = null;
  let graph: CommitGraph | null | undefined;
  let pending: Map<Oid, LooseObject> | null = null;
  let pendingBytes = 0;

  function missing(oid: Oid): AgentqError {
    const promisor = options.promisor?.() ?? null;
    return promisor === null
      ? new AgentqError("object-missing", `Object ${oid} is missing from ${objectsDir}.`, {
        details: { oid },
      })
      : new AgentqError(
        "object-missing",
        `Object ${oid} is missing: this is a partial clone and ${promisor} has not sent it.`,
        {
          hint: `Fetch it with: git fetch ${promisor} ${oid}`,
          details: { oid, promisor },
        },
      );
  }

  function has(oid: Oid): boolean {
    const visit = {
      packed: () => true,
      loose: (directory: string) => hasLoose(directory, oid) || null,
    };
    return pending?.has(oid) || sources.find(oid, visit, true) === true;
  }

  /** An object that is what its id says. zlib's checksum covers a stream, not which one was led to. */
  function checked(oid: Oid, object: RawObject | null, where: string): RawObject | null {
    if (object === null || hashObject(object.type, object.data) === oid) return object;
    throw new AgentqError("repository-corrupt", `Object ${oid} in ${where} has another content.`, {
      details: { oid, path: where },
    });
  }

  function read(oid: Oid): RawObject {
    const waiting = pending?.get(oid);
    if (waiting) return { type: waiting.type, data: waiting.data };
    const object = sources.find(oid, {
      packed: (pack, offset) => checked(oid, pack.read(offset), pack.path),
      loose: (directory) => checked(oid, readLoose(directory, oid), directory),
    }, false);
    if (object) return object;
    if (oid === EMPTY_TREE) return { type: "tree", data: new Uint8Array() };
    throw missing(oid);
  }

  function stat(oid: Oid): { type: ObjectType; size: number } {
    const waiting = pending?.get(oid);
    if (waiting) return { type: waiting.type, size: waiting.data.length };
    const found = sources.find(oid, {
      packed: (pack, offset) => pack.stat(offset),
      loose: (directory) => statLoose(directory, oid),
    }, false);
    if (found) return found;
    if (oid === EMPTY_TREE) return { type: "tree", size: 0 };
    throw missing(oid);
  }

  function prefixed(prefix: string, limit = 2): Oid[] {
    const found = new Set<Oid>();
    const look = () =>
      sources.collect(
        (pack) => pack.index().prefixed(prefix, limit).forEach((oid) => found.add(oid)),
        (directory) => prefixedLoose(directory, prefix).forEach((oid) => found.add(oid)),
      );
    for (const oid of pending?.keys() ?? []) if (oid.startsWith(prefix)) found.add(oid);
    look();
    if (found.size === 0 && sources.rescan(true)) look();
    return [...found].sort().slice(0, limit);
  }

  function commitInfo(oid: Oid): CommitInfo {
    let info = commits.get(oid);
    if (!info) commits.set(oid, info = readCommitInfo(oid), 1);
    return info;
  }

  function readCommitInfo(oid: Oid): CommitInfo {
    shallow ??= options.shallow?.() ?? new Set();
    if (shallow.size === 0) {
      if (graph === undefined) graph = openCommitGraph(objectsDir, pool);
      const known = graph?.find(oid);
      if (known) return known;
    }
    const object = read(oid);
    if (object.type !== "commit") {
      throw new AgentqError(
        "repository-corrupt",
        `Object ${oid} is a ${object.type}, not a commit.`,
        {
          details: { oid },
        },
      );
    }
    const { parents, time } = parseCommitLinks(object.data, oid);
    return { parents: shallow.has(oid) ? [] : parents, time, generation: Infinity };
  }

  /** True when the object is there; tells a concurrent gc that it is wanted. */
  function freshen(oid: Oid): boolean {
    const now = new Date();
    return sources.search(oid, {
      packed: (pack) => {
        try {
          utimesSync(pack.path, now, now);
        } catch {
          // Not ours to touch, but there.
        }
        return true;
      },
      loose: (directory) => freshenLoose(directory, oid) || null,
    }) === true;
  }

  /** Makes what a batch has collected durable. A pack costs three syncs, a loose object two each. */
  function flush(): void {
    const objects = pending ?? new Map<Oid, LooseObject>();
    const sharedMode = options.sharedMode?.() ?? 0;
    if (objects.size <= 1) writeLoose(objectsDir, [...objects.values()], sharedMode);
    else {
      const reader: ObjectReader = {
        read: (oid) => objects.get(oid)!,
        has: (oid) => objects.has(oid),
        stat: (oid) => ({ type: objects.get(oid)!.type, size: objects.get(oid)!.data.length }),
      };
      storePack(`${objectsDir}/pack`, reader, [...objects.values()], { sharedMode });
      tidyPacks(`${objectsDir}/pack`, sharedMode);
      sources.rescan(false);
    }
    objects.clear();
    pendingBytes = 0;
  }

  return {
    directory: objectsDir,
    packDirectory: `${objectsDir}/pack`,
    get isPartial() {
      return (options.promisor?.() ?? null) !== null;
    },
    directories: () => sources.directories(),
    read,
    stat,
    has,
    commitInfo,
    prefixed,
    write(type: ObjectType, data: Uint8Array): Oid {
      const oid = hashObject(type, data);
      if (pending?.has(oid) || freshen(oid)) return oid;
      if (pending) {
        pending.set(oid, { oid, type, data });
        pendingBytes += data.length;
        if (pendingBytes > BATCH_BYTES) flush();
      } else writeLoose(objectsDir, [{ oid, type, data }], options.sharedMode?.() ?? 0);
      return oid;
    },
    batch<T>(work: () => T): T {
      if (pending) return work();
      pending = new Map();
      try {
        const result = work();
        flush();
        return result;
      } finally {
        pending = null;
        pendingBytes = 0;
      }
    },
    refresh() {
      shallow = null;
      graph = undefined;
      commits.clear();
      sources.rescan(false);
    },
    close() {
      graph = undefined;
      pool.clear();
      bases.clear();
      commits.clear();
    },
  };
}
