/**
 * A small HTTP/1.1 client over the runtime's sockets. A push must know whether its last byte left this
 * machine before something went wrong, and every origin must fail in the same, typed, way under each
 * runtime; the runtimes' own clients differ in both.
 *
 *   request: head ─▶ body, by length or in chunks │ the answer may come at any time and ends the sending
 *   answer:  1xx skipped ─▶ head ─▶ body: by length, chunked, or to the end of the connection
 *
 * A connection is used again when the answer was read to its end.
 */
import type { Buffer } from "node:buffer";
import { AgentqError } from "../../errors.ts";
import { abortReason, throwIfAborted } from "../../platform/clock.ts";
import { bodyOf, decoded, readHead } from "./answer.ts";
import { send } from "./send.ts";
import { type Connection, socketError } from "./socket.ts";

export interface HttpRequest {
  readonly method: "GET" | "POST";
  readonly url: URL;
  /** In this order; a name may come again. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** Bytes of known length, or chunks to send as they come. */
  readonly body?: Uint8Array | Iterable<Uint8Array>;
  readonly signal?: AbortSignal;
  /** Called once, right before the last bytes of the body are handed to the socket. */
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
  ) => Promise<{ connection: Connection; proxied: Record<string, string> | null }>;
  /** Milliseconds for one request with its whole answer. */
  readonly totalMs: number;
}

/** A server may close an idle connection at any time; one this young it has hardly given up. */
const REUSE_MS = 4000;

interface Idle {
  readonly connection: Connection;
  readonly proxied: Record<string, string> | null;
  readonly since: number;
}

export function createHttpClient(options: ClientOptions): HttpClient {
  const idle = new Map<string, Idle>();

  async function acquire(url: URL): Promise<Idle & { reused: boolean }> {
    const known = idle.get(url.origin);
    idle.delete(url.origin);
    if (known) {
      if (known.connection.usable() && performance.now() - known.since < REUSE_MS) {
        return { ...known, reused: true };
      }
      known.connection.destroy();
    }
    return { ...await options.connect(url), since: 0, reused: false };
  }

  async function attempt(request: HttpRequest): Promise<HttpResponse | "stale"> {
    throwIfAborted(request.signal);
    const where = request.url.host;
    const { connection, proxied, reused } = await acquire(request.url);
    const onAbort = () => connection.destroy(abortReason(request.signal!));
    request.signal?.addEventListener("abort", onAbort, { once: true });
    const timer = setTimeout(() => {
      const seconds = options.totalMs / 1000;
      connection.destroy(
        new AgentqError("origin-timeout", `${where} took longer than ${seconds} s to answer.`),
      );
    }, options.totalMs);
    let finished = false;
    const finish = (reusable: boolean) => {
      if (finished) return;
      finished = true;
      clearTimeout(timer);
      request.signal?.removeEventListener("abort", onAbort);
      if (reusable && connection.usable()) {
        idle.set(request.url.origin, { connection, proxied, since: performance.now() });
      } else connection.destroy();
    };
    try {
      throwIfAborted(request.signal);
      connection.begin();
      let handedOver = false;
      let answered = false;
      const sending = send(connection, request, proxied, () => answered, () => {
        handedOver = true;
        request.onSent?.();
      });
      // An answer that comes early (413, 401) makes the sending fail or stop: it still counts.
      sending.catch(() => {});
      const head = await readHead(connection, where);
      answered = true;
      if (head === null) {
        if (reused && (request.method === "GET" || !handedOver)) {
          finish(false);
          return "stale";
        }
        throw socketError({ code: "ECONNRESET" }, where);
      }
      const complete = await Promise.race([sending.then(() => true, () => false), later(false)]);
      const keep = complete && head.version === "1.1" &&
        !/\bclose\b/i.test(head.headers.get("connection") ?? "");
      const raw = bodyOf(connection, head, where, (reusable) => finish(reusable && keep));
      return { status: head.status, headers: head.headers, body: decoded(raw, head, where) };
    } catch (error) {
      finish(false);
      throw error;
    }
  }

  return {
    async request(request) {
      const first = await attempt(request);
      if (first !== "stale") return first;
      // The server had closed the idle connection before it saw anything of this request.
      const second = await attempt(request);
      if (second === "stale") throw socketError({ code: "ECONNRESET" }, request.url.host);
      return second;
    },
    close() {
      for (const { connection } of idle.values()) connection.destroy();
      idle.clear();
    },
  };
}

const later = <T>(value: T) => new Promise<T>((resolve) => setTimeout(() => resolve(value)));
