/** An origin behind smart HTTP. */
import { pktReader } from "../pkt-line.ts";
import { askAgain } from "../protocol/again.ts";
import { AGENT } from "../protocol/agent.ts";
import { type Advertisement, listedBy, readAdvertisement } from "../protocol/advertisement.ts";
import { pushOver, type PushWire } from "../protocol/push.ts";
import {
  branchTips,
  type ReadingOptions,
  readingOver,
  type UploadWire,
} from "../protocol/reading.ts";
import { checkPushCapabilities } from "../protocol/receive-pack.ts";
import { pushShown, type ShownWire } from "../protocol/shown.ts";
import type { Origin } from "../types.ts";
import { openSmartHttp, type Service, type SmartOptions } from "./smart.ts";

export interface HttpOriginOptions extends SmartOptions, ReadingOptions {
  /** How long a ref that was made may be missing from the lists, in milliseconds. */
  readonly shownMs?: number;
}

export function openHttpOrigin(url: URL, printable: string, options: HttpOriginOptions): Origin {
  const server = openSmartHttp(url, options);
  let uploads: Promise<Advertisement> | null = null;
  let receives: Promise<Advertisement> | null = null;

  const advertise = (service: Service, signal?: AbortSignal): Promise<Advertisement> =>
    askAgain(() => advertiseOnce(service, signal), signal);

  async function advertiseOnce(service: Service, signal?: AbortSignal): Promise<Advertisement> {
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

  const wire: UploadWire = {
    get name() {
      return server.name;
    },
    agent: AGENT,
    describe: (signal) => uploadPack(false, signal),
    list: (signal) => uploadPack(true, signal),
    offer: (signal) => uploadPack(true, signal),
    ask: (_asking, advertisement, request, read, signal) =>
      askAgain(async () => {
        const answer = await server.call("git-upload-pack", request(advertisement), {
          ...(advertisement.version === 2 ? { version: advertisement.version } : {}),
          signal,
        });
        const reader = pktReader(answer, server.name);
        try {
          const result = await read(reader, advertisement);
          while (await reader.packet() !== null);
          return result;
        } finally {
          await reader.close();
        }
      }, signal),
  };
  const reading = readingOver(wire, options);
  /** Answers that nobody waits for any more; a hook there may still be talking. */
  const lingering = new Set<AbortController>();

  const pushing: PushWire = {
    get name() {
      return server.name;
    },
    agent: AGENT,
    refs: reading.refs,
    common: reading.common,
    async prepare(signal) {
      const advertisement = await receivePack(signal);
      const { capabilities } = advertisement;
      checkPushCapabilities(capabilities, server.name);
      const ending = new AbortController();
      return {
        capabilities,
        tips: branchTips(advertisement),
        async send(body, sendOptions) {
          const { signal: asked } = sendOptions;
          const signal = asked ? AbortSignal.any([asked, ending.signal]) : ending.signal;
          return pktReader(
            await server.call("git-receive-pack", body, { ...sendOptions, signal }),
            server.name,
          );
        },
        leave: () => void lingering.add(ending),
      };
    },
  };
  const shown: ShownWire = {
    refs: reading.refs,
    listed: async (signal) => listedBy(await advertise("git-receive-pack", signal)),
    push: (updates, objects, options) => pushOver(pushing, updates, objects, options),
  };

  return {
    kind: "http",
    url: printable,
    refs: reading.refs,
    readCommits: reading.readCommits,
    fetch: reading.fetch,
    objects: () => null,
    push: (updates, objects, pushOptions = {}) =>
      pushShown(shown, updates, objects, pushOptions, options.shownMs),
    close() {
      for (const ending of lingering) ending.abort();
      server.close();
    },
  };
}
