/**
 * pkt-line, the framing of every git protocol: four hex digits of length (themselves included), then
 * the payload. Lengths 0 to 2 are the marks `flush`, `delim` and `response-end`.
 */
import { Buffer } from "node:buffer";
import { AgentqError } from "../errors.ts";

/** Longest payload of one packet: git's LARGE_PACKET_DATA_MAX. */
export const MAX_PAYLOAD = 65516;

export const FLUSH = Buffer.from("0000", "latin1");
export const DELIM = Buffer.from("0001", "latin1");

export type Packet =
  | { readonly kind: "data"; readonly payload: Buffer }
  | { readonly kind: "flush" | "delim" | "response-end" };

const MARKS = ["flush", "delim", "response-end"] as const;

/**
 * What the other side says ended too early: a connection that broke, a proxy that gave up. Unlike an
 * answer that is wrong, the next one may be whole.
 */
export function cutOff(from: string, what: string, cause?: unknown): AgentqError {
  return new AgentqError("protocol-error", `${from} ${what}.`, {
    cause,
    retryable: true,
    hint: "Its answer was cut off, by the server or on the way: try again.",
  });
}

/** One data packet. Text is encoded as UTF-8. */
export function pktLine(payload: string | Uint8Array): Buffer {
  const body = typeof payload === "string" ? Buffer.from(payload, "utf8") : payload;
  if (body.length > MAX_PAYLOAD) {
    throw new AgentqError("internal", `A packet of ${body.length} bytes does not fit a pkt-line.`);
  }
  const head = (body.length + 4).toString(16).padStart(4, "0");
  return Buffer.concat([Buffer.from(head, "latin1"), body]);
}

/** A packet's payload as text without the one LF that senders may add. */
export function pktText(packet: Packet): string {
  if (packet.kind !== "data") return "";
  const text = packet.payload.toString("utf8");
  return text.endsWith("\n") ? text.slice(0, -1) : text;
}

/** Reads packets, and raw bytes between them, from a stream of chunks of any size. */
export interface PktReader {
  /** The next packet; null at a clean end of the stream. Cut off inside a packet: `protocol-error`. */
  packet(): Promise<Packet | null>;
  /** Everything that is left, as it arrives. */
  rest(): AsyncGenerator<Buffer, void, undefined>;
  /** Tells the source that nothing more is wanted. */
  close(): Promise<void>;
}

export function pktReader(source: AsyncIterable<Uint8Array>, from = "The server"): PktReader {
  const chunks = source[Symbol.asyncIterator]();
  let buffered: Buffer = Buffer.alloc(0);
  let ended = false;

  async function more(): Promise<boolean> {
    if (ended) return false;
    const next = await chunks.next();
    if (next.done) {
      ended = true;
      return false;
    }
    const chunk = Buffer.from(next.value.buffer, next.value.byteOffset, next.value.byteLength);
    buffered = buffered.length === 0 ? chunk : Buffer.concat([buffered, chunk]);
    return true;
  }

  async function need(length: number): Promise<boolean> {
    while (buffered.length < length) if (!(await more())) return false;
    return true;
  }

  function take(length: number): Buffer {
    const taken = buffered.subarray(0, length);
    buffered = buffered.subarray(length);
    return taken;
  }

  const broken = (what: string) => new AgentqError("protocol-error", `${from} ${what}.`);

  return {
    async packet() {
      if (!(await need(4))) {
        if (buffered.length === 0) return null;
        throw cutOff(from, "stopped in the middle of a packet");
      }
      const digits = buffered.toString("latin1", 0, 4);
      if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw broken("sent something that is not a pkt-line");
      const length = parseInt(digits, 16);
      if (length < 4) {
        const mark = MARKS[length];
        if (!mark) throw broken("sent a packet of an impossible length");
        take(4);
        return { kind: mark };
      }
      if (length > MAX_PAYLOAD + 4) throw broken("sent a packet of an impossible length");
      if (!(await need(length))) throw cutOff(from, "stopped in the middle of a packet");
      return { kind: "data", payload: take(length).subarray(4) };
    },
    async *rest() {
      if (buffered.length > 0) yield take(buffered.length);
      while (await more()) yield take(buffered.length);
    },
    async close() {
      ended = true;
      await chunks.return?.();
    },
  };
}

/**
 * The three bands of a multiplexed answer: 1 is data, 2 is text for people, 3 ends it with an error.
 * Yields band 1; ends at the flush packet.
 * @param onText called with band 2, raw
 * @throws `server-error` for band 3, `protocol-error` when the stream ends without its flush
 */
export async function* sideband(
  reader: PktReader,
  onText: (text: string) => void,
  from = "The server",
): AsyncGenerator<Buffer, void, undefined> {
  for (;;) {
    const packet = await reader.packet();
    if (packet === null) {
      throw cutOff(from, "stopped in the middle of its answer");
    }
    if (packet.kind !== "data") return;
    const band = packet.payload[0];
    const body = packet.payload.subarray(1);
    if (band === 1) yield body;
    else if (band === 2) onText(body.toString("utf8"));
    else if (band === 3) {
      const words = body.toString("utf8").trim();
      throw new AgentqError("server-error", `${from} gave up: ${JSON.stringify(words)}.`, {
        details: { remoteOutput: words },
      });
    } else throw new AgentqError("protocol-error", `${from} sent an unknown side band.`);
  }
}
