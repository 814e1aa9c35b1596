/**
 * One connection to one git service, from its advertisement on, with the limits that hold for all that
 * is asked over it.
 */
import type { Buffer } from "node:buffer";
import { AgentqError, isAgentqError } from "../../errors.ts";
import { abortReason, throwIfAborted } from "../../platform/clock.ts";
import { FLUSH, type Packet, type PktReader, pktReader } from "../pkt-line.ts";
import { type Advertisement, readAdvertisement } from "../protocol/advertisement.ts";
import type { Asking } from "../protocol/reading.ts";
import {
  type Channel,
  type Dial,
  type Pipe,
  pipe,
  type Service,
  type StreamLimits,
  type Version2,
} from "./channel.ts";

export interface Session {
  readonly advertisement: Advertisement;
  readonly reader: PktReader;
  readonly pipe: Pipe;
  readonly channel: Channel;
  /** What was asked over it so far. */
  readonly asked: Asking[];
  /** True after a flush packet was the last that was read. */
  flushed(): boolean;
  /** Runs work that ends, the connection with it, when the signal is aborted or `totalMs` is over. */
  limited<T>(work: () => Promise<T>, signal: AbortSignal | undefined): Promise<T>;
  /** Says goodbye. */
  finish(): void;
  destroy(): void;
}

/** @throws typed errors that tell why there is no advertisement */
export async function openSession(
  dial: Dial,
  service: Service,
  version2: Version2,
  limits: StreamLimits & { readonly firstMs: number | null },
  signal: AbortSignal | undefined,
): Promise<Session> {
  throwIfAborted(signal);
  const { name } = dial;
  const channel = await dial.open(service, version2, signal);
  const wire = pipe(channel, name, limits, limits.firstMs);
  let told = 0;

  async function* source(): AsyncGenerator<Buffer, void, undefined> {
    for (;;) {
      const chunk = await wire.read();
      if (chunk !== null) yield chunk;
      // The end without a word in answer has its reason elsewhere.
      else if (wire.received() === told) throw await channel.explain(wire.received() > 0);
      else return;
    }
  }

  const packets = pktReader(source(), name);
  let last: Packet | null = null;
  const reader: PktReader = {
    async packet() {
      last = await packets.packet();
      return last;
    },
    rest: () => packets.rest(),
    close: () => packets.close(),
  };

  async function limited<T>(work: () => Promise<T>, aborting: AbortSignal | undefined): Promise<T> {
    throwIfAborted(aborting);
    told = wire.received();
    const onAbort = () => wire.fail(abortReason(aborting!));
    const timer = setTimeout(() => {
      const seconds = limits.totalMs / 1000;
      wire.fail(new AgentqError("origin-timeout", `${name} took more than ${seconds} s.`));
    }, Math.min(limits.totalMs, 0x7fffffff));
    aborting?.addEventListener("abort", onAbort, { once: true });
    try {
      return await work();
    } finally {
      clearTimeout(timer);
      aborting?.removeEventListener("abort", onAbort);
    }
  }

  try {
    const advertisement = await limited(
      () => readAdvertisement(reader, service, name, false),
      signal,
    );
    return {
      advertisement,
      reader,
      pipe: wire,
      channel,
      asked: [],
      flushed: () => last?.kind === "flush",
      limited,
      finish() {
        // A flush in place of a request ends upload-pack and receive-pack without a complaint.
        wire.write(FLUSH).catch(() => {});
        channel.finish();
      },
      destroy: () => channel.destroy(),
    };
  } catch (error) {
    channel.destroy();
    throw refusedAtTheDoor(error, dial, service, channel);
  }
}

/** An `ERR` in place of the advertisement, and noise in front of it, in words that fit. */
function refusedAtTheDoor(error: unknown, dial: Dial, service: Service, channel: Channel): unknown {
  if (isAgentqError(error, "server-error")) {
    const remoteOutput = String(error.details?.remoteOutput ?? "");
    const said = JSON.stringify(remoteOutput.slice(0, 1000));
    const details = { remoteOutput };
    return service === "git-upload-pack"
      ? new AgentqError("origin-not-found", `${dial.name} gives out no repository: ${said}.`, {
        details,
      })
      : new AgentqError("forbidden", `${dial.name} takes no pushes: ${said}.`, {
        details,
        ...(dial.kind === "git"
          ? { hint: "A git daemon takes pushes only with --enable=receive-pack: use ssh or https." }
          : {}),
      });
  }
  if (isAgentqError(error, "protocol-error") && !error.retryable && dial.kind === "ssh") {
    return new AgentqError("protocol-error", error.message, {
      cause: error,
      hint:
        "A login script on the server that prints to standard output garbles the protocol: try ssh with `true` as the command.",
      ...(channel.said() === "" ? {} : { details: { remoteOutput: channel.said() } }),
    });
  }
  return error;
}
