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
import { Buffer } from "node:buffer";
import { createGunzip, createInflate } from "node:zlib";
import { AgentqError } from "../../errors.ts";
import { abortReason, throwIfAborted } from "../../platform/clock.ts";
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

const MAX_HEAD = 64 * 1024;
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

async function send(
  connection: Connection,
  request: HttpRequest,
  proxied: Record<string, string> | null,
  answered: () => boolean,
  onSent: () => void,
): Promise<void> {
  const { url, body } = request;
  const target = proxied ? `${url.origin}${url.pathname}${url.search}` : url.pathname + url.search;
  const whole = body === undefined || body instanceof Uint8Array;
  const headers: (readonly [string, string])[] = [
    ["Host", url.host],
    ...Object.entries(proxied ?? {}),
    ...request.headers,
  ];
  if (body instanceof Uint8Array) headers.push(["Content-Length", String(body.length)]);
  else if (body !== undefined) headers.push(["Transfer-Encoding", "chunked"]);
  let text = `${request.method} ${target} HTTP/1.1\r\n`;
  for (const [name, value] of headers) {
    // A line break would begin another header.
    if (/[\r\n\0]/.test(name + value)) {
      throw new AgentqError("config-invalid", `The header ${name} is malformed.`);
    }
    text += `${name}: ${value}\r\n`;
  }
  const head = Buffer.from(text + "\r\n", "latin1");
  if (whole) {
    onSent();
    await connection.write(body ? Buffer.concat([head, body]) : head);
    return;
  }
  await connection.write(head);
  let waiting: Uint8Array[] = [];
  let size = 0;
  const flush = async (last: boolean) => {
    const chunks: Uint8Array[] = size > 0
      ? [Buffer.from(`${size.toString(16)}\r\n`), ...waiting, Buffer.from("\r\n")]
      : [];
    if (last) {
      chunks.push(Buffer.from("0\r\n\r\n"));
      onSent();
    }
    waiting = [];
    size = 0;
    await connection.write(Buffer.concat(chunks));
  };
  for (const chunk of body) {
    if (answered()) throw socketError({ code: "EPIPE" }, url.host);
    waiting.push(chunk);
    if ((size += chunk.length) >= 64 * 1024) await flush(false);
  }
  await flush(true);
}

interface Head {
  readonly version: string;
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
}

/** The head of the final answer; null when the connection ended before its first byte. */
async function readHead(connection: Connection, where: string): Promise<Head | null> {
  for (;;) {
    let data = Buffer.alloc(0);
    let end = -1;
    while (end < 0) {
      const chunk = await connection.read();
      if (chunk === null) {
        if (data.length === 0) return null;
        throw malformed(where, "stopped in the middle of its answer");
      }
      data = Buffer.concat([data, chunk]);
      end = data.indexOf("\r\n\r\n");
      if (end < 0 && data.length > MAX_HEAD) throw malformed(where, "sent endless headers");
    }
    connection.unread(data.subarray(end + 4));
    const lines = data.toString("latin1", 0, end).split("\r\n");
    const first = /^HTTP\/(1\.[01]) (\d{3})(?: |$)/.exec(lines[0]!);
    if (!first) throw malformed(where, "did not answer in HTTP/1.1");
    const status = Number(first[2]);
    if (status >= 100 && status < 200) continue;
    const headers = new Map<string, string>();
    for (const line of lines.slice(1)) {
      const colon = line.indexOf(":");
      if (colon <= 0) throw malformed(where, "sent a malformed header");
      const name = line.slice(0, colon).toLowerCase();
      const value = line.slice(colon + 1).trim();
      const before = headers.get(name);
      headers.set(name, before === undefined ? value : `${before}, ${value}`);
    }
    return { version: first[1]!, status, headers };
  }
}

async function* bodyOf(
  connection: Connection,
  head: Head,
  where: string,
  finish: (reusable: boolean) => void,
): AsyncGenerator<Buffer, void, undefined> {
  let complete = false;
  try {
    const length = head.headers.get("content-length");
    const coding = head.headers.get("transfer-encoding");
    if (head.status === 204 || head.status === 304) {
      complete = true;
    } else if (coding !== undefined) {
      if (!/\bchunked$/i.test(coding)) throw malformed(where, `uses the transfer coding ${coding}`);
      yield* chunked(connection, where);
      complete = true;
    } else if (length !== undefined) {
      if (!/^\d{1,15}$/.test(length)) throw malformed(where, "sent a malformed content length");
      for (let left = Number(length); left > 0;) {
        const chunk = await connection.read();
        if (chunk === null) throw malformed(where, "stopped in the middle of its answer");
        connection.unread(chunk.subarray(left));
        const part = chunk.subarray(0, left);
        left -= part.length;
        yield part;
      }
      complete = true;
    } else {
      for (let chunk = await connection.read(); chunk; chunk = await connection.read()) yield chunk;
    }
  } finally {
    finish(complete);
  }
}

async function* chunked(
  connection: Connection,
  where: string,
): AsyncGenerator<Buffer, void, undefined> {
  let data: Buffer = Buffer.alloc(0);
  const more = async () => {
    const chunk = await connection.read();
    if (chunk === null) throw malformed(where, "stopped in the middle of its answer");
    data = data.length === 0 ? chunk : Buffer.concat([data, chunk]);
  };
  const line = async (): Promise<string> => {
    for (let end;; await more()) {
      if ((end = data.indexOf("\r\n")) >= 0) {
        const text = data.toString("latin1", 0, end);
        data = data.subarray(end + 2);
        return text;
      }
      if (data.length > MAX_HEAD) throw malformed(where, "sent a malformed chunk");
    }
  };
  for (;;) {
    const size = /^([0-9a-fA-F]{1,12})\s*(;.*)?$/.exec(await line());
    if (!size) throw malformed(where, "sent a malformed chunk");
    let left = parseInt(size[1]!, 16);
    if (left === 0) break;
    while (left > 0) {
      if (data.length === 0) await more();
      const part = data.subarray(0, left);
      data = data.subarray(part.length);
      left -= part.length;
      yield part;
    }
    if (await line() !== "") throw malformed(where, "sent a malformed chunk");
  }
  // Trailers say nothing to us.
  while (await line() !== "");
  connection.unread(data);
}

async function* decoded(
  raw: AsyncGenerator<Buffer, void, undefined>,
  head: Head,
  where: string,
): AsyncGenerator<Buffer, void, undefined> {
  const coding = (head.headers.get("content-encoding") ?? "identity").toLowerCase();
  if (coding === "identity") {
    yield* raw;
    return;
  }
  if (!["gzip", "x-gzip", "deflate"].includes(coding)) {
    await raw.return();
    throw malformed(where, `uses the content coding ${JSON.stringify(coding)}`);
  }
  const inflater = coding === "deflate" ? createInflate() : createGunzip();
  let failure: unknown = null;
  const feeding = (async () => {
    try {
      for await (const chunk of raw) {
        if (!inflater.write(chunk)) {
          await new Promise((resolve) => {
            inflater.once("drain", resolve);
            inflater.once("close", resolve);
          });
        }
      }
      inflater.end();
    } catch (error) {
      failure = error;
      inflater.destroy();
    }
  })();
  try {
    for await (const chunk of inflater) yield chunk as Buffer;
  } catch (cause) {
    if (failure === null) throw malformed(where, "sent a body that does not decompress", cause);
  } finally {
    inflater.destroy();
    await feeding;
  }
  if (failure !== null) throw failure;
}

function malformed(where: string, what: string, cause?: unknown): AgentqError {
  return new AgentqError("protocol-error", `${where} ${what}.`, { cause });
}
