/**
 * git-upload-pack over connections that last. Opening one costs the most (ssh: several round trips and
 * a login), so one that has been used is kept for a moment:
 *
 *   protocol 2   advertisement ▶ list? ▶ commits* ▶ … flush
 *                            └─▶ list? ▶ objects* ▶ … flush
 *   protocol 0   advertisement (the list) ▶ one request
 *
 * A list must be the first request: git reads its refs once per process, and a second list would be the
 * first one again. Objects aren't asked for after commits: these are asked for with a depth, and the
 * server remembers where it cut.
 */
import { isAgentqError } from "../../errors.ts";
import type { Advertisement } from "../protocol/advertisement.ts";
import { askAgain } from "../protocol/again.ts";
import type { Asking, UploadWire } from "../protocol/reading.ts";
import type { Dial, StreamLimits } from "./channel.ts";
import { openSession, type Session } from "./session.ts";

/** How long a connection that nobody uses is kept, in milliseconds. */
const KEEP_MS = 5_000;
/** From so many refs on, a server that lists them all is insisted upon to list those asked for. */
const MANY_REFS = 1_000;

export interface Uploads extends UploadWire {
  close(): void;
}

export function uploadsOver(
  dial: Dial,
  agent: string,
  limits: StreamLimits & { readonly firstMs: number | null },
): Uploads {
  let held: Session | null = null;
  let holding: ReturnType<typeof setTimeout> | undefined;
  let known: Advertisement | null = null;
  let version2: "offer" | "insist" = "offer";
  let insisted = !dial.insists;
  let closed = false;

  function release(): void {
    clearTimeout(holding);
    held?.finish();
    held = null;
  }

  function hold(session: Session): void {
    release();
    if (closed || !session.pipe.usable()) return session.finish();
    held = session;
    holding = setTimeout(release, KEEP_MS);
    // It isn't worth keeping the process for.
    holding.unref?.();
  }

  function take(fits: (session: Session) => boolean): Session | null {
    const session = held;
    if (session === null || !fits(session)) return null;
    clearTimeout(holding);
    held = null;
    if (session.pipe.usable()) return session;
    session.destroy();
    return null;
  }

  async function open(signal: AbortSignal | undefined): Promise<Session> {
    const session = await openSession(dial, "git-upload-pack", version2, limits, signal);
    known = session.advertisement;
    return session;
  }

  /** Opens a connection and keeps it for the request that will follow. */
  async function look(signal: AbortSignal | undefined): Promise<Advertisement> {
    const session = await askAgain(() => open(signal), signal);
    hold(session);
    return session.advertisement;
  }

  /** Protocol 2 from a server that gave an older one: sshd drops the offer unless told otherwise. */
  async function insist(signal: AbortSignal | undefined): Promise<Advertisement | null> {
    if (insisted) return null;
    insisted = true;
    try {
      const session = await openSession(dial, "git-upload-pack", "insist", limits, signal);
      if (session.advertisement.version !== 2) {
        session.finish();
        return null;
      }
      version2 = "insist";
      known = session.advertisement;
      hold(session);
      return known;
    } catch (error) {
      // A restricted account runs git's commands and nothing else. The older protocol does too.
      if (signal?.aborted) throw error;
      return null;
    }
  }

  function allowed(asking: Asking, { advertisement, asked }: Session): boolean {
    if (advertisement.version !== 2) return asked.length === 0;
    if (asking === "list") return asked.length === 0;
    return asking === "commits" ? !asked.includes("objects") : !asked.includes("commits");
  }

  return {
    name: dial.name,
    agent,
    async describe(signal) {
      return known ?? await look(signal);
    },
    async list(signal) {
      if (known?.version === 2) return known;
      const advertisement = await look(signal);
      const many = advertisement.version !== 2 && advertisement.snapshot.refs.size > MANY_REFS;
      return many ? await insist(signal) ?? advertisement : advertisement;
    },
    async offer(signal) {
      const better = known?.version === 2 ? known : await insist(signal);
      if (better !== null) return better;
      return held?.asked.length === 0 ? held.advertisement : await look(signal);
    },
    ask: (asking, _known, request, read, signal) =>
      askAgain(() => ask(asking, request, read, signal), signal),
    close() {
      closed = true;
      release();
    },
  };

  async function ask<T>(
    asking: Asking,
    request: Parameters<UploadWire["ask"]>[2],
    read: (reader: Session["reader"], advertisement: Advertisement) => Promise<T>,
    signal: AbortSignal | undefined,
  ): Promise<T> {
    for (let again = false;; again = true) {
      const kept = again ? null : take((session) => allowed(asking, session));
      const session = kept ?? await open(signal);
      const before = session.pipe.received();
      try {
        const result = await session.limited(async () => {
          session.asked.push(asking);
          await session.pipe.write(request(session.advertisement));
          const value = await read(session.reader, session.advertisement);
          if (session.advertisement.version === 2) {
            while (!session.flushed() && await session.reader.packet() !== null);
          }
          return value;
        }, signal);
        if (session.advertisement.version === 2) hold(session);
        else session.channel.finish();
        return result;
      } catch (error) {
        session.destroy();
        // The server may have hung up on a connection that waited: that says nothing yet.
        const stale = kept !== null && session.pipe.received() === before &&
          !signal?.aborted && !isAgentqError(error, "origin-timeout");
        if (!stale) throw error;
      }
    }
  }
}
