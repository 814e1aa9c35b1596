/**
 * The object database of a repository: its packs and loose objects, and those of its alternates.
 *
 * Looking an object up: the pack that answered last, the other known packs, the loose file, the
 * alternates in the same way; then, once, the pack directories are listed again, because another git
 * may have repacked meanwhile; only then is the object missing. A pack that vanishes under our hands is
 * dropped and the search begun again.
 */
import { readdirSync, statSync, utimesSync } from "node:fs";
import { AgentqError } from "../errors.ts";
import { readAlternates } from "./alternates.ts";
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
import { openPack, type Pack } from "./pack.ts";
import { storePack } from "./pack-store.ts";
import { tidyPacks } from "./pack-tidy.ts";
import { createSlicePool, FileVanished, type SlicePool } from "./slices.ts";
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

interface Source {
  readonly directory: string;
  packs: Pack[] | null;
  /** Modification time of the pack directory when it was listed. */
  listed: bigint;
}

export function openObjectStore(objectsDir: string, options: ObjectStoreOptions = {}): ObjectStore {
  const pool: SlicePool = createSlicePool(options.cacheBytes ?? SLICE_BYTES);
  const bases = createBoundedCache(options.cacheBytes ?? BASE_BYTES);
  /** By id, since walks come by the same recent commits again and again. Weighed in entries. */
  const commits = createBoundedCache(COMMITS).part<CommitInfo, Oid>();
  const own: Source = { directory: objectsDir, packs: null, listed: -1n };
  let sources: Source[] | null = null;
  let recent: Pack | null = null;
  let shallow: ReadonlySet<Oid> | null = null;
  let graph: CommitGraph | null | undefined;
  let pending: Map<Oid, LooseObject> | null = null;
  let pendingBytes = 0;

  function packDirectoryTime(source: Source): bigint {
    return statSync(`${source.directory}/pack`, { bigint: true, throwIfNoEntry: false })?.mtimeNs ??
      -1n;
  }

  /** Lists the packs, keeping those already open. */
  function list(source: Source): void {
    const directory = `${source.directory}/pack`;
    source.listed = packDirectoryTime(source);
    let names: string[] = [];
    try {
      names = readdirSync(directory);
    } catch (cause) {
      if ((cause as { code?: string }).code !== "ENOENT") {
        throw new AgentqError("io-error", `Cannot list ${directory}.`, { cause });
      }
    }
    const known = new Map((source.packs ?? []).map((pack) => [pack.path, pack]));
    const all = new Set(names);
    const packs: Pack[] = [];
    for (const name of names) {
      if (!name.endsWith(".idx") || !all.has(name.replace(/idx$/, "pack"))) continue;
      const path = `${directory}/${name.replace(/idx$/, "pack")}`;
      packs.push(known.get(path) ?? openPack(path, pool, bases));
      known.delete(path);
    }
    for (const gone of known.values()) gone.close();
    if (recent && known.has(recent.path)) recent = null;
    source.packs = packs;
  }

  function packsOf(source: Source): Pack[] {
    if (source.packs === null) list(source);
    return source.packs!;
  }

  function* allSources(): Iterable<Source> {
    yield own;
    sources ??= readAlternates(objectsDir).map((directory) => ({
      directory,
      packs: null,
      listed: -1n,
    }));
    yield* sources;
  }

  /** Lists pack directories again; with `changedOnly`, those whose time says so or is too young to trust. */
  function rescan(changedOnly: boolean): void {
    for (const source of allSources()) {
      if (changedOnly && source.packs !== null) {
        const time = packDirectoryTime(source);
        const young = Math.abs(Date.now() - Number(time / 1_000_000n)) < 10_000;
        if (time === source.listed && !young) continue;
      }
      list(source);
    }
  }

  /** Finds the object and hands it to the reader for where it is; null when it is nowhere known. */
  function search<T>(
    oid: Oid,
    packed: (pack: Pack, offset: number) => T,
    loose: (directory: string) => T | null,
  ): T | null {
    for (let vanished = 0;; vanished++) {
      try {
        if (recent) {
          const offset = recent.index().find(oid);
          if (offset >= 0) return packed(recent, offset);
        }
        for (const source of allSources()) {
          for (const pack of packsOf(source)) {
            if (pack === recent) continue;
            const offset = pack.index().find(oid);
            if (offset < 0) continue;
            recent = pack;
            return packed(pack, offset);
          }
          const found = loose(source.directory);
          if (found !== null) return found;
        }
        return null;
      } catch (error) {
        if (!(error instanceof FileVanished) || vanished >= 8) throw error;
        recent = null;
        rescan(false);
      }
    }
  }

  function find<T>(
    oid: Oid,
    packed: (pack: Pack, offset: number) => T,
    loose: (directory: string) => T | null,
    changedOnly: boolean,
  ): T | null {
    const found = search(oid, packed, loose);
    if (found !== null) return found;
    rescan(changedOnly);
    return search(oid, packed, loose);
  }

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
    return pending?.has(oid) ||
      find(oid, () => true, (directory) => hasLoose(directory, oid) || null, true) === true;
  }

  function read(oid: Oid): RawObject {
    const waiting = pending?.get(oid);
    if (waiting) return { type: waiting.type, data: waiting.data };
    const object = find(
      oid,
      (pack, offset) => pack.read(offset),
      (directory) => readLoose(directory, oid),
      false,
    );
    if (!object) {
      if (oid === EMPTY_TREE) return { type: "tree", data: new Uint8Array() };
      throw missing(oid);
    }
    // zlib's checksum covers a stream, not which stream a damaged header or index led to.
    if (hashObject(object.type, object.data) !== oid) {
      throw new AgentqError(
        "repository-corrupt",
        `Object ${oid} in ${objectsDir} has another content.`,
        {
          details: { oid },
        },
      );
    }
    return object;
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
    return search(
      oid,
      (pack) => {
        try {
          utimesSync(pack.path, now, now);
        } catch {
          // Not ours to touch, but there.
        }
        return true;
      },
      (directory) => freshenLoose(directory, oid) || null,
    ) === true;
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
      list(own);
    }
    objects.clear();
    pendingBytes = 0;
  }

  return {
    directory: objectsDir,
    packDirectory: `${objectsDir}/pack`,
    directories: () => [...allSources()].map((source) => source.directory),
    read,
    commitInfo,
    stat(oid) {
      const waiting = pending?.get(oid);
      if (waiting) return { type: waiting.type, size: waiting.data.length };
      const found = find(
        oid,
        (pack, offset) => pack.stat(offset),
        (directory) => statLoose(directory, oid),
        false,
      );
      if (found) return found;
      if (oid === EMPTY_TREE) return { type: "tree", size: 0 };
      throw missing(oid);
    },
    has,
    prefixed(prefix, limit = 2) {
      const found = new Set<Oid>();
      for (let attempt = 0; attempt < 2 && found.size === 0; attempt++) {
        if (attempt > 0) rescan(true);
        for (const source of allSources()) {
          for (const pack of packsOf(source)) {
            for (const oid of pack.index().prefixed(prefix, limit)) found.add(oid);
          }
          for (const oid of prefixedLoose(source.directory, prefix)) found.add(oid);
        }
        for (const oid of pending?.keys() ?? []) if (oid.startsWith(prefix)) found.add(oid);
      }
      return [...found].sort().slice(0, limit);
    },
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
      rescan(false);
    },
    close() {
      graph = undefined;
      pool.clear();
      bases.clear();
      commits.clear();
    },
  };
}
