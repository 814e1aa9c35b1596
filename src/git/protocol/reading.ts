/**
 * Reading from a git server over any wire: its refs, single commits, packs.
 *
 *   refs         list ── protocol 2: ls-refs with our prefixes │ 0, 1: the advertisement itself
 *   readCommits  wants, depth 1, without trees where the server filters
 *   fetch        wants, haves ▶ a pack, indexed as it arrives
 *   common       haves ▶ those that the server has
 *
 * Protocol 2 gives out any object that is asked for by name. The older ones give out what refs name, or
 * what these reach where the server's operator allows it: else what is wanted is looked for behind them.
 */
import { AgentqError, isAgentqError } from "../../errors.ts";
import { throwIfAborted } from "../../platform/clock.ts";
import { isWhole } from "../connected.ts";
import { indexPack, readPackObjects } from "../index-pack.ts";
import { tidyPacks } from "../pack-tidy.ts";
import type { PktReader } from "../pkt-line.ts";
import type { FetchTarget, Oid, Origin, RefSnapshot } from "../types.ts";
import type { Advertisement } from "./advertisement.ts";
import {
  canFilter,
  canNegotiate,
  type FetchRequest,
  fetchRequest,
  lsRefsRequest,
  negotiationRequest,
  readFetch,
  readLsRefs,
  readNegotiation,
} from "./upload-pack.ts";

/** What a request to git-upload-pack is for: some may follow others on one connection. */
export type Asking = "list" | "commits" | "objects";

/** One server's git-upload-pack. */
export interface UploadWire {
  /** How the server is called in messages. */
  readonly name: string;
  readonly agent: string;
  /** What the server can do; an earlier answer will do. */
  describe(signal?: AbortSignal): Promise<Advertisement>;
  /** An advertisement for listing refs: one that lists them itself is made after the call. */
  list(signal?: AbortSignal): Promise<Advertisement>;
  /** The advertisement whose refs the next request may want. */
  offer(signal?: AbortSignal): Promise<Advertisement>;
  /**
   * One request with its answer, read to its end. `request` and `read` get the advertisement of the
   * connection that is used, `known` in most cases; both may be called again on another connection.
   */
  ask<T>(
    asking: Asking,
    known: Advertisement,
    request: (advertisement: Advertisement) => Uint8Array,
    read: (reader: PktReader, advertisement: Advertisement) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T>;
}

export interface ReadingOptions {
  /** Commits that the clone being fetched into holds whole. */
  readonly localHaves: () => readonly Oid[];
  /** Commits of that clone whose parents it lacks on purpose. */
  readonly shallow: () => readonly Oid[];
  /** Whether that clone is a partial one, which lacks objects behind commits that it has. */
  readonly partial?: () => boolean;
}

/** What a wire can do for an {@link Origin}. */
export interface Reading extends Pick<Origin, "refs" | "readCommits" | "fetch"> {
  /**
   * Those of the clone's own commits that the server has, `near` asked about besides; none where the
   * server can't be asked.
   */
  common(near: readonly Oid[], signal?: AbortSignal): Promise<Oid[]>;
}

/** Commits asked for in one request. */
const BATCH = 256;
/** Chain commits are small; one may be made large to hurt us. */
const MAX_COMMITS_PACK = 128 * 1024 * 1024;
/** Parents that come along with what was asked for: somebody else's commits may be of any size. */
const MAX_ALONG_PACK = 4 * 1024 * 1024;
/** How far behind the refs a server is searched that gives out nothing but its refs. */
const OLD_SERVER_DEPTH = 64;

/** The reading half of an {@link Origin} over `wire`. */
export function readingOver(wire: UploadWire, options: ReadingOptions): Reading {
  async function refs(prefixes: readonly string[], signal?: AbortSignal): Promise<RefSnapshot> {
    const advertisement = await wire.list(signal);
    const snapshot = advertisement.version === 2
      ? await wire.ask(
        "list",
        advertisement,
        (version2) => lsRefsRequest(prefixes, version2.capabilities, wire.agent),
        (reader) => readLsRefs(reader, wire.name),
        signal,
      )
      : advertisement.snapshot;
    // Servers may list more than they were asked for.
    const wanted = [...snapshot.refs].filter(([name]) =>
      prefixes.some((prefix) => name.startsWith(prefix))
    );
    return { refs: new Map(wanted), head: snapshot.head };
  }

  /** One fetch; the pack goes to `take`. */
  async function fetchPack<T>(
    kind: "commits" | "objects",
    request: FetchRequest,
    signal: AbortSignal | undefined,
    take: (pack: AsyncIterable<Uint8Array>) => Promise<T>,
  ): Promise<T> {
    return await wire.ask(
      kind,
      await wire.describe(signal),
      ({ version, capabilities }) => fetchRequest(version, request, capabilities, wire.agent),
      (reader, { version, capabilities }) =>
        take(readFetch(version, reader, capabilities, wire.name)),
      signal,
    );
  }

  /** Reads commits that the server may lack: what it refuses as a whole is asked for in halves. */
  async function readSome(
    oids: readonly Oid[],
    generations: number,
    found: Map<Oid, Uint8Array>,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    if (oids.length === 0) return;
    const limit = generations > 1 ? MAX_ALONG_PACK : MAX_COMMITS_PACK;
    try {
      const request = { wants: oids, haves: [], depth: generations, commitsOnly: true };
      const options = { signal, from: wire.name };
      const objects = await fetchPack(
        "commits",
        request,
        signal,
        (pack) => readPackObjects(pack, limit, options),
      );
      for (const oid of generations > 1 ? objects.keys() : oids) {
        const object = objects.get(oid);
        if (object?.type === "commit") found.set(oid, object.data);
      }
    } catch (error) {
      // What came along was too much, or broken, or isn't given out: without it, then.
      if (generations > 1 && isAgentqError(error, "server-error", "protocol-error")) {
        if (error.details?.status === undefined) return await readSome(oids, 1, found, signal);
      }
      // An ERR packet instead of a pack: the server has no such object, or doesn't give it out.
      if (!isAgentqError(error, "server-error") || error.details?.status !== undefined) throw error;
      if (oids.length === 1) return;
      const middle = oids.length >> 1;
      await readSome(oids.slice(0, middle), generations, found, signal);
      await readSome(oids.slice(middle), generations, found, signal);
    }
  }

  /** Protocol 0 without leave to ask for any commit: only what its refs name, and a little behind. */
  async function readBehindRefs(
    oids: readonly Oid[],
    tips: readonly Oid[],
    found: Map<Oid, Uint8Array>,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const request = { wants: tips, haves: [], depth: OLD_SERVER_DEPTH, commitsOnly: true };
    const options = { signal, from: wire.name };
    const objects = await fetchPack(
      "commits",
      request,
      signal,
      (pack) => readPackObjects(pack, MAX_COMMITS_PACK, options),
    );
    for (const oid of oids) {
      const object = objects.get(oid);
      if (object?.type === "commit") found.set(oid, object.data);
    }
  }

  const givesAny = ({ version, capabilities }: Advertisement) =>
    version === 2 || capabilities.has("allow-reachable-sha1-in-want");
  /** All that the server gives out; null when it gives out anything. */
  const offered = (advertisement: Advertisement): Set<Oid> | null =>
    givesAny(advertisement) || advertisement.version === 2
      ? null
      : new Set(advertisement.snapshot.refs.values());

  async function readCommits(
    oids: readonly Oid[],
    signal?: AbortSignal,
    generations = 1,
  ): Promise<Map<Oid, Uint8Array>> {
    const found = new Map<Oid, Uint8Array>();
    if (oids.length === 0) return found;
    const advertisement = await wire.describe(signal);
    // Unfiltered, whoever's commits come along would bring all their files.
    const along = canFilter(advertisement.version, advertisement.capabilities) ? generations : 1;
    let wanted = [...new Set(oids)];
    const tips = givesAny(advertisement) ? null : offered(await wire.offer(signal));
    if (tips !== null) {
      const behind = wanted.filter((oid) => !tips.has(oid));
      wanted = wanted.filter((oid) => tips.has(oid));
      if (behind.length > 0 && tips.size > 0) {
        await readBehindRefs(behind, [...tips], found, signal);
      }
    }
    for (let at = 0; at < wanted.length; at += BATCH) {
      await readSome(wanted.slice(at, at + BATCH), along, found, signal);
    }
    return found;
  }

  async function fetch(
    wants: readonly Oid[],
    into: FetchTarget,
    fetching: { haves?: readonly Oid[]; signal?: AbortSignal } = {},
  ): Promise<void> {
    const { signal } = fetching;
    throwIfAborted(signal);
    const local = options.localHaves();
    const haves = [...new Set([...(fetching.haves ?? []), ...local])].filter((oid) =>
      into.has(oid)
    );
    const known = new Set(haves);
    const missing = [...new Set(wants)].filter((oid) =>
      !known.has(oid) && !isWhole(into, oid, haves)
    );
    if (missing.length === 0) return;
    let asked: readonly Oid[] = missing;
    const advertisement = await wire.describe(signal);
    const tips = givesAny(advertisement) ? null : offered(await wire.offer(signal));
    // Something behind the refs comes with the refs.
    if (tips !== null && !missing.every((oid) => tips.has(oid))) asked = [...tips];
    try {
      const path = await fetchPack(
        "objects",
        { wants: asked, haves, shallow: options.shallow(), thin: options.partial?.() !== true },
        signal,
        (pack) =>
          indexPack(pack, into.packDirectory, {
            bases: into,
            signal,
            from: wire.name,
            promisor: into.isPartial === true,
          }),
      );
      if (path !== null) {
        tidyPacks(into.packDirectory);
        into.refresh();
      }
    } catch (error) {
      if (!isAgentqError(error, "server-error") || error.details?.status !== undefined) throw error;
      throw new AgentqError(
        "object-missing",
        `${wire.name} does not give out ${missing.join(", ")}.`,
        {
          cause: error,
          details: { ...error.details, wants: missing },
        },
      );
    }
    const absent = missing.find((oid) => !into.has(oid));
    if (absent) {
      throw new AgentqError("object-missing", `${wire.name} sent a pack without ${absent}.`, {
        details: { oid: absent },
      });
    }
  }

  async function common(near: readonly Oid[], signal?: AbortSignal): Promise<Oid[]> {
    const advertisement = await wire.describe(signal);
    if (!canNegotiate(advertisement.version, advertisement.capabilities)) return [];
    const haves = [...new Set([...near, ...options.localHaves()])];
    if (haves.length === 0) return [];
    const { agent, name } = wire;
    const wanted = (one: Advertisement) =>
      one.version === 2 ? "" : [...one.snapshot.refs.values()][0];
    if (wanted(advertisement) === undefined) return [];
    return await wire.ask(
      "objects",
      advertisement,
      (used) =>
        negotiationRequest(used.version, wanted(used) ?? "", haves, used.capabilities, agent),
      (reader, { version }) => readNegotiation(version, reader, name),
      signal,
    );
  }

  return { refs, readCommits, fetch, common };
}

/** What the branches of an advertisement that lists them hold. */
export function branchTips(advertisement: Advertisement): Oid[] {
  if (advertisement.version === 2) return [];
  const { refs } = advertisement.snapshot;
  return [...refs].filter(([name]) => name.startsWith("refs/heads/")).map(([, oid]) => oid);
}
