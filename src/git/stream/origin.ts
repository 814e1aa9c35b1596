/** An origin over a transport that keeps its connections: ssh and git://. */
import { isAgentqError } from "../../errors.ts";
import type { PktReader } from "../pkt-line.ts";
import { listedBy } from "../protocol/advertisement.ts";
import { AGENT } from "../protocol/agent.ts";
import { pushOver } from "../protocol/push.ts";
import { branchTips, type ReadingOptions, readingOver } from "../protocol/reading.ts";
import { checkPushCapabilities } from "../protocol/receive-pack.ts";
import { hiddenFromReaders, pushShown, type ShownWire } from "../protocol/shown.ts";
import type { ObjectReader, Origin, PushOptions, PushOutcome, RefUpdate } from "../types.ts";
import type { Dial, StreamLimits } from "./channel.ts";
import { openSession, type Session } from "./session.ts";
import { uploadsOver } from "./uploads.ts";

export interface StreamOriginOptions extends ReadingOptions {
  readonly limits: StreamLimits & { readonly firstMs: number | null };
  /** How long a ref that was made may be missing from the lists, in milliseconds. */
  readonly shownMs?: number;
}

export function openStreamOrigin(
  dial: Dial,
  printable: string,
  options: StreamOriginOptions,
): Origin {
  const { limits } = options;
  const uploads = uploadsOver(dial, AGENT, limits);
  const reading = readingOver(uploads, options);
  const pushing = new Set<Session>();
  /** Connections whose push is over, with a hook that isn't. */
  const lingering = new Set<Session>();

  async function pushOnce(
    updates: readonly RefUpdate[],
    objects: ObjectReader,
    pushOptions: PushOptions,
  ): Promise<PushOutcome> {
    const { signal } = pushOptions;
    const session = await openSession(dial, "git-receive-pack", "no", limits, signal);
    pushing.add(session);
    try {
      checkPushCapabilities(session.advertisement.capabilities, dial.name);
      const lost = lostAlready(updates, session);
      if (lost !== null) {
        session.finish();
        // A ref that only who pushes is shown would be lost again and again.
        const seen = (await reading.refs(lost.refs, signal)).refs;
        const hidden = lost.refs.filter((ref) => !seen.has(ref));
        return hidden.length > 0 ? hiddenFromReaders(hidden) : lost;
      }
      const outcome = await session.limited(
        () => pushOver(wire(session), updates, objects, pushOptions),
        signal,
      );
      if (!lingering.has(session)) session.channel.finish();
      return withSaid(outcome, session);
    } catch (error) {
      session.destroy();
      throw error;
    } finally {
      pushing.delete(session);
    }
  }

  const wire = (session: Session) => ({
    name: dial.name,
    agent: AGENT,
    refs: reading.refs,
    common: reading.common,
    prepare: () =>
      Promise.resolve({
        capabilities: session.advertisement.capabilities,
        tips: branchTips(session.advertisement),
        send: (
          body: Uint8Array | (() => Iterable<Uint8Array>),
          { onSent }: { onSent: () => void },
        ) => send(session, body, onSent),
        leave: () => void lingering.add(session),
      }),
  });

  const shown: ShownWire = {
    refs: reading.refs,
    async listed(signal) {
      const session = await openSession(dial, "git-receive-pack", "no", limits, signal);
      session.finish();
      return listedBy(session.advertisement);
    },
    push: pushOnce,
  };

  return {
    kind: dial.kind,
    url: printable,
    refs: reading.refs,
    readCommits: reading.readCommits,
    fetch: reading.fetch,
    objects: () => null,
    push: (updates, objects, pushOptions = {}) =>
      pushShown(shown, updates, objects, pushOptions, options.shownMs),
    close() {
      uploads.close();
      for (const session of [...pushing, ...lingering]) session.destroy();
      dial.close();
    },
  };
}

/** Sends the request; `onSent` right before its last bytes go, without which nothing can happen. */
async function send(
  session: Session,
  body: Uint8Array | (() => Iterable<Uint8Array>),
  onSent: () => void,
): Promise<PktReader> {
  const chunks = typeof body === "function" ? body() : [body];
  try {
    let waiting: Uint8Array | null = null;
    for (const chunk of chunks) {
      if (waiting !== null) await session.pipe.write(waiting);
      waiting = chunk;
    }
    onSent();
    if (waiting !== null) await session.pipe.write(waiting);
  } catch (error) {
    // A server that takes nothing more has perhaps said why before it hung up: its report counts.
    if (!isAgentqError(error, "origin-unreachable")) throw error;
  }
  return untilFlush(session.reader);
}

/** The one flush packet ends the report; what else holds the connection open isn't waited for. */
function untilFlush(reader: PktReader): PktReader {
  let over = false;
  return {
    ...reader,
    async packet() {
      if (over) return null;
      const packet = await reader.packet();
      over = packet?.kind === "flush";
      return packet;
    },
  };
}

/** A ref that the server shows elsewhere than we left it: nothing need be sent to lose. */
function lostAlready(
  updates: readonly RefUpdate[],
  session: Session,
): Extract<PushOutcome, { status: "lost" }> | null {
  const { advertisement } = session;
  if (advertisement.version === 2) return null;
  const { refs } = advertisement.snapshot;
  // A ref that isn't shown may be hidden from the list. All of ours there: an earlier push arrived.
  const moved = updates.filter(({ ref, old }) => refs.has(ref) && refs.get(ref) !== old);
  if (moved.length === 0 || updates.every((update) => refs.get(update.ref) === update.new)) {
    return null;
  }
  const names = moved.map(({ ref }) => ref);
  return { status: "lost", message: `${names.join(", ")} moved meanwhile`, refs: names };
}

/** What the server printed beside the protocol belongs to its refusal. */
function withSaid(outcome: PushOutcome, session: Session): PushOutcome {
  const said = session.channel.said();
  if (outcome.status !== "refused" || said === "") return outcome;
  const { remoteOutput } = outcome;
  return {
    ...outcome,
    remoteOutput: remoteOutput === "" || remoteOutput.endsWith("\n")
      ? remoteOutput + said
      : `${remoteOutput}\n${said}`,
  };
}
