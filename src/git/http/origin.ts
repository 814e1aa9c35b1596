/** An origin behind smart HTTP. */
import { Buffer } from "node:buffer";
import { AgentqError, isAgentqError } from "../../errors.ts";
import { throwIfAborted } from "../../platform/clock.ts";
import { isWhole } from "../connected.ts";
import { indexPack, readPackObjects } from "../index-pack.ts";
import { tidyPacks } from "../pack-tidy.ts";
import { type PktReader, pktReader } from "../pkt-line.ts";
import { type Advertisement, readAdvertisement } from "../protocol/advertisement.ts";
import { checkPushCapabilities } from "../protocol/receive-pack.ts";
import {
  type FetchRequest,
  fetchRequest,
  lsRefsRequest,
  readFetch,
  readLsRefs,
} from "../protocol/upload-pack.ts";
import type { FetchTarget, Oid, Origin, RefSnapshot } from "../types.ts";
import { pushOver } from "../protocol/push.ts";
import { AGENT, openSmartHttp, type Service, type SmartOptions } from "./smart.ts";

export interface HttpOriginOptions extends SmartOptions {
  /** Commits that the clone being fetched into holds whole. */
  readonly localHaves: () => readonly Oid[];
  /** Commits of that clone whose parents it lacks on purpose. */
  readonly shallow: () => readonly Oid[];
}

/** Commits asked for in one request. */
const BATCH = 256;
/** Chain commits are small; one may be made large to hurt us. */
const MAX_COMMITS_PACK = 128 * 1024 * 1024;
/** How far behind the refs a server is searched that gives out nothing but its refs. */
const OLD_SERVER_DEPTH = 64;

export function openHttpOrigin(url: URL, printable: string, options: HttpOriginOptions): Origin {
  const server = openSmartHttp(url, options);
  let uploads: Promise<Advertisement> | null = null;
  let receives: Promise<Advertisement> | null = null;

  async function advertise(service: Service, signal?: AbortSignal): Promise<Advertisement> {
    const reader = pktReader(await server.advertise(service, signal), server.name);
    try {
      const advertisement = await readAdvertisement(reader, service, server.name, true);
      // Reading to the end lets the connection be used again.
      while (await reader.packet() !== null);
      return advertisement;
    } catch (error) {
      await reader.close();
      throw error;
    }
  }

  /** What the server can do; asked once. Protocol 0 lists refs too, which must be fresh. */
  async function uploadPack(fresh: boolean, signal?: AbortSignal): Promise<Advertisement> {
    if (uploads && fresh && (await uploads).version !== 2) uploads = null;
    const asking = uploads ??= advertise("git-upload-pack", signal);
    asking.catch(() => {
      if (uploads === asking) uploads = null;
    });
    return asking;
  }

  async function receivePack(signal?: AbortSignal): Promise<Advertisement> {
    const asking = receives ??= advertise("git-receive-pack", signal);
    asking.catch(() => {
      if (receives === asking) receives = null;
    });
    return asking;
  }

  async function ask<T>(
    version: number,
    body: Buffer,
    signal: AbortSignal | undefined,
    read: (reader: PktReader) => Promise<T>,
  ): Promise<T> {
    const answer = await server.call("git-upload-pack", body, {
      ...(version === 2 ? { version } : {}),
      signal,
    });
    const reader = pktReader(answer, server.name);
    try {
      const result = await read(reader);
      while (await reader.packet() !== null);
      return result;
    } finally {
      await reader.close();
    }
  }

  async function refs(prefixes: readonly string[], signal?: AbortSignal): Promise<RefSnapshot> {
    const advertisement = await uploadPack(true, signal);
    const snapshot = advertisement.version === 2
      ? await ask(
        2,
        lsRefsRequest(prefixes, advertisement.capabilities, AGENT),
        signal,
        (reader) => readLsRefs(reader, server.name),
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
    request: FetchRequest,
    signal: AbortSignal | undefined,
    take: (pack: AsyncIterable<Uint8Array>) => Promise<T>,
  ): Promise<T> {
    const { version, capabilities } = await uploadPack(false, signal);
    const body = fetchRequest(version, request, capabilities, AGENT);
    return await ask(
      version,
      body,
      signal,
      (reader) => take(readFetch(version, reader, capabilities, server.name)),
    );
  }

  /** Reads commits that the server may lack: what it refuses as a whole is asked for in halves. */
  async function readSome(
    oids: readonly Oid[],
    found: Map<Oid, Uint8Array>,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    if (oids.length === 0) return;
    try {
      const request = { wants: oids, haves: [], depth: 1, commitsOnly: true };
      const options = { signal, from: server.name };
      const objects = await fetchPack(
        request,
        signal,
        (pack) => readPackObjects(pack, MAX_COMMITS_PACK, options),
      );
      for (const oid of oids) {
        const object = objects.get(oid);
        if (object?.type === "commit") found.set(oid, object.data);
      }
    } catch (error) {
      // An ERR packet instead of a pack: the server has no such object, or doesn't give it out.
      if (!isAgentqError(error, "server-error") || error.details?.status !== undefined) throw error;
      if (oids.length === 1) return;
      const middle = oids.length >> 1;
      await readSome(oids.slice(0, middle), found, signal);
      await readSome(oids.slice(middle), found, signal);
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
    const options = { signal, from: server.name };
    const objects = await fetchPack(
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

  async function readCommits(
    oids: readonly Oid[],
    signal?: AbortSignal,
  ): Promise<Map<Oid, Uint8Array>> {
    const found = new Map<Oid, Uint8Array>();
    if (oids.length === 0) return found;
    const advertisement = await uploadPack(false, signal);
    let wanted = [...new Set(oids)];
    if (advertisement.version !== 2 && !givesAny(advertisement)) {
      const fresh = await uploadPack(true, signal);
      const tips = new Set(fresh.version === 2 ? [] : fresh.snapshot.refs.values());
      const behind = wanted.filter((oid) => !tips.has(oid));
      wanted = wanted.filter((oid) => tips.has(oid));
      if (behind.length > 0 && tips.size > 0) {
        await readBehindRefs(behind, [...tips], found, signal);
      }
    }
    for (let at = 0; at < wanted.length; at += BATCH) {
      await readSome(wanted.slice(at, at + BATCH), found, signal);
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
    const advertisement = await uploadPack(false, signal);
    if (advertisement.version !== 2 && !givesAny(advertisement)) {
      const fresh = await uploadPack(true, signal);
      const tips = new Set(fresh.version === 2 ? [] : fresh.snapshot.refs.values());
      // Something behind the refs comes with the refs.
      if (!missing.every((oid) => tips.has(oid))) asked = [...tips];
    }
    try {
      const path = await fetchPack(
        { wants: asked, haves, shallow: options.shallow() },
        signal,
        (pack) => indexPack(pack, into.packDirectory, { bases: into, signal, from: server.name }),
      );
      if (path !== null) {
        tidyPacks(into.packDirectory);
        into.refresh();
      }
    } catch (error) {
      if (!isAgentqError(error, "server-error") || error.details?.status !== undefined) throw error;
      throw new AgentqError(
        "object-missing",
        `${server.name} does not give out ${missing.join(", ")}.`,
        {
          cause: error,
          details: { ...error.details, wants: missing },
        },
      );
    }
    const absent = missing.find((oid) => !into.has(oid));
    if (absent) {
      throw new AgentqError("object-missing", `${server.name} sent a pack without ${absent}.`, {
        details: { oid: absent },
      });
    }
  }

  return {
    kind: "http",
    url: printable,
    refs,
    readCommits,
    objects: () => null,
    fetch,
    push: (updates, objects, pushing = {}) =>
      pushOver(
        {
          name: server.name,
          agent: AGENT,
          refs,
          async prepare(signal) {
            const advertisement = await receivePack(signal);
            const { capabilities } = advertisement;
            checkPushCapabilities(capabilities, server.name);
            return {
              capabilities,
              tips: branchTips(advertisement),
              async send(body, sendOptions) {
                return pktReader(
                  await server.call("git-receive-pack", body, sendOptions),
                  server.name,
                );
              },
            };
          },
        },
        updates,
        objects,
        pushing,
      ),
    close: () => server.close(),
  };
}

/** What the branches held when the server was first asked. */
function branchTips(advertisement: Advertisement): Oid[] {
  if (advertisement.version === 2) return [];
  const { refs } = advertisement.snapshot;
  return [...refs].filter(([name]) => name.startsWith("refs/heads/")).map(([, oid]) => oid);
}
