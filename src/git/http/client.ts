/**
 * A small HTTP/1.1 client over the runtime's sockets. A push must know whether its last byte left this
 * machine before something went wrong, and every origin must fail in the same, typed, way under each
 * runtime; the runtimes' own clients differ in both.
 *
 *   request: head ─▶ body, by length or in chunks │ the answer may come at any time and ends the sending
 *   answer:  1xx skipped ─▶ head ─▶ body: by length, chunked, or to the end of the connection
 *
 * A connection is used again when the answer was read to its end. Servers and proxies close what they
 * said they would keep, at once or after a while, so what meets such a close is sent again on a new one:
 *
 *   a read  ─▶ kept connection ── closed before any byte of an answer ──▶ new connection
 *   a push  ─▶ kept connection, if it has been used twice and isn't closed now ── else ──▶ new connection
 */
import type { Buffer } from "node:buffer";
import { AgentqError, isAgentqError } from "../../errors.ts";
import { abortReason, throwIfAborted } from "../../platform/clock.ts";
import { bodyOf, decoded, readHead } from "./answer.ts";
import { send } from "./send.ts";
import type { Connection } from "./socket.ts";
import { perhapsForACertificate, socketError } from "./socket-error.ts";

export interface HttpRequest {
  readonly method: "GET" | "POST";
  readonly url: URL;
  /** In this order; a name may come again. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** Bytes of known length, or chunks to send as they come, made anew for each attempt. */
  readonly body?: Uint8Array | (() => Iterable<Uint8Array>);
  /** True where the server may be given it twice. */
  readonly repeatable: boolean;
  readonly signal?: AbortSignal;
  /** Called right before the last bytes of the body are handed to the socket. */
  readonly onSent?: () => void;
}

export interface HttpResponse {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  /** The decoded body; must be read to its end or closed. */
  readonly body: AsyncGenerator<Buffer, void, undefined>;
}

export interface HttpClient {
  request(request: HttpRequest): Promise<HttpResponse>;
  close(): void;
}

export interface ClientOptions {
  /** Opens a connection to the server of a url; `proxied`: requests name the whole url. */
  readonly connect: (
    url: URL,
    signal?: AbortSignal,
  ) => Promise<{ connection: Connection; proxied: Record<string, string> | null }>;
  /** Milliseconds for one request with its whole answer. */
  readonly totalMs: number;
}

/** A server may close an idle connection at any time; one this young it has hardly given up. */
const REUSE_MS = 4000;

interface Held {
  readonly connection: Connection;
  readonly proxied: Record<string, string> | null;
  /** Requests that it has answered. */
  readonly served: number;
}

export function createHttpClient(options: ClientOptions): HttpClient {
  const idle = new Map<string, Held & { until: number }>();
  /** Servers that closed a connection which they were to keep, without having used it twice. */
  const fickle = new Set<string>();

  /** A kept connection turned out closed. */
  function closed({ origin }: URL, { served }: Held): void {
    if (served === 1) fickle.add(origin);
  }

  async function acquire({ url, repeatable, signal }: HttpRequest): Promise<Held> {
    const known = idle.get(url.origin);
    idle.delete(url.origin);
    if (known) {
      // A close that has arrived by now is seen when the event loop has had its turn.
      if (!repeatable) await later(null);
      const young = performance.now() < known.until;
      const usable = known.connection.usable();
      if (usable && young && (repeatable || known.served > 1)) return known;
      if (!usable && young) closed(url, known);
      known.connection.destroy();
    }
    return { ...await options.connect(url, signal), served: 0 };
  }

  async function attempt(request: HttpRequest): Promise<HttpResponse | "stale"> {
    throwIfAborted(request.signal);
    const where = request.url.host;
    const held = await acquire(request);
    const { connection, proxied, served } = held;
    const onAbort = () => connection.destroy(abortReason(request.signal!));
    request.signal?.addEventListener("abort", onAbort, { once: true });
    const timer = setTimeout(() => {
      const seconds = options.totalMs / 1000;
      connection.destroy(
        new AgentqError("origin-timeout", `${where} took longer than ${seconds} s to answer.`),
      );
    }, options.totalMs);
    let handedOver = false;
    let keepMs = REUSE_MS;
    let finished = false;
    const finish = (reusable: boolean) => {
      if (finished) return;
      finished = true;
      clearTimeout(timer);
      request.signal?.removeEventListener("abort", onAbort);
      const { origin } = request.url;
      if (reusable && connection.usable() && !fickle.has(origin)) {
        const until = performance.now() + keepMs;
        idle.set(origin, { connection, proxied, served: served + 1, until });
      } else connection.destroy();
    };
    try {
      throwIfAborted(request.signal);
      connection.begin();
      let answered = false;
      const sending = send(connection, request, proxied, () => answered, () => {
        handedOver = true;
        request.onSent?.();
      });
      sending.catch((error) => {
        // An answer that comes early (413, 401) makes the sending fail or stop: it still counts. What
        // fails on this side is never answered.
        if (!isCut(error)) connection.destroy(error);
      });
      const head = await readHead(connection, where);
      answered = true;
      if (head === null) throw socketError({ code: "ECONNRESET" }, where);
      const complete = await Promise.race([sending.then(() => true, () => false), later(false)]);
      const keep = complete && head.version === "1.1" &&
        !/\bclose\b/i.test(head.headers.get("connection") ?? "");
      // Half of what the server says it will wait: it counts from earlier on than we do.
      const waits = /\btimeout=(\d{1,6})/i.exec(head.headers.get("keep-alive") ?? "")?.[1];
      if (waits !== undefined) keepMs = Math.min(REUSE_MS, Number(waits) * 500);
      const raw = bodyOf(connection, head, where, (reusable) => finish(reusable && keep));
      return { status: head.status, headers: head.headers, body: decoded(raw, head, where) };
    } catch (error) {
      const stale = served > 0 && !connection.heard() && isCut(error);
      finish(false);
      if (!stale) {
        const isNew = served === 0 && !connection.heard() && request.url.protocol === "https:";
        throw isNew && isAgentqError(error, "origin-unreachable")
          ? perhapsForACertificate(error)
          : error;
      }
      closed(request.url, held);
      if (!request.repeatable && handedOver) throw error;
      return "stale";
    }
  }

  return {
    async request(request) {
      for (;;) {
        // The next one is new: there is one kept connection at most, unless another request has
        // brought one back meanwhile.
        const response = await attempt(request);
        if (response !== "stale") return response;
      }
    },
    close() {
      for (const { connection } of idle.values()) connection.destroy();
      idle.clear();
    },
  };
}

/** The other side is gone. Over TLS that may come as an alert. */
const isCut = (error: unknown) => isAgentqError(error, "origin-unreachable", "tls-error");

const later = <T>(value: T) => new Promise<T>((resolve) => setTimeout(() => resolve(value)));
