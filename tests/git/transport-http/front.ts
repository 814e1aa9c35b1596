/**
 * A plain TCP server in front of a web server, which decides over every byte of an answer and over when
 * its connections are closed: what proxies and older servers do, and Node's own server can't.
 */
import { Buffer } from "node:buffer";
import http from "node:http";
import net, { type AddressInfo, type Socket } from "node:net";
import tls from "node:tls";

export interface Asked {
  readonly method: string;
  readonly url: string;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: Buffer;
  /** Counts the requests of this connection, from 1 on. */
  readonly nth: number;
}

export interface Answer {
  readonly bytes: Buffer;
  /** Milliseconds until the connection is closed after it; undefined: it is kept. */
  readonly close?: number;
}

export interface Front {
  readonly url: string;
  readonly asked: Asked[];
  /** How many connections there were. */
  connections: number;
  /** What is sent; null: the connection is closed without an answer, whether or not more would come. */
  behave: (asked: Asked, given: Given) => Answer | null;
  /** Called with the head of a request whose body is still to come; true closes the connection. */
  hangUp: (head: string, nth: number) => boolean;
  close(): void;
}

/** The answer of the server behind. */
export interface Given {
  readonly status: number;
  readonly type: string;
  readonly body: Buffer;
}

/** An answer by length, HTTP/1.1, nothing said about the connection. */
export function whole({ status, type, body }: Given): Buffer {
  const head = `HTTP/1.1 ${status} x\r\nContent-Type: ${type}\r\nContent-Length: ${body.length}`;
  return Buffer.concat([Buffer.from(`${head}\r\n\r\n`), body]);
}

/** The same in chunks of up to `size` bytes. */
export function inChunks({ status, type, body }: Given, size = 100): Buffer {
  const parts: Buffer[] = [
    Buffer.from(
      `HTTP/1.1 ${status} x\r\nContent-Type: ${type}\r\nTransfer-Encoding: chunked\r\n\r\n`,
    ),
  ];
  for (let at = 0; at < body.length; at += size) {
    const chunk = body.subarray(at, at + size);
    parts.push(Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from("\r\n"));
  }
  return Buffer.concat([...parts, Buffer.from("0\r\n\r\n")]);
}

/** The same to the end of the connection, as HTTP/1.0 has it. */
export function toTheEnd({ status, type, body }: Given): Buffer {
  return Buffer.concat([
    Buffer.from(`HTTP/1.0 ${status} x\r\nContent-Type: ${type}\r\n\r\n`),
    body,
  ]);
}

export async function serveFront(
  backend: string,
  secure?: { key: Buffer; cert: Buffer },
): Promise<Front> {
  const sockets = new Set<Socket>();
  const serveSocket = (socket: Socket) => {
    front.connections++;
    sockets.add(socket);
    let data = Buffer.alloc(0);
    let nth = 0;
    let busy = false;
    let closing = false;
    let judged = "";
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
    socket.on("data", (chunk: Buffer) => {
      data = Buffer.concat([data, chunk]);
      void serve();
    });

    async function serve(): Promise<void> {
      if (busy || closing) return;
      const end = data.indexOf("\r\n\r\n");
      if (end < 0) return;
      const text = data.toString("latin1", 0, end);
      if (judged !== text) {
        judged = text;
        if (front.hangUp(text, nth + 1)) return void socket.destroy();
      }
      const taken = request(text, data.subarray(end + 4));
      if (taken === null) return;
      busy = true;
      judged = "";
      data = data.subarray(end + 4 + taken.length);
      const asked = { ...taken.asked, nth: ++nth };
      front.asked.push(asked);
      const answer = front.behave(asked, await pass(backend, asked));
      busy = false;
      if (answer === null) return void socket.destroy();
      socket.write(answer.bytes);
      if (answer.close === undefined) return serve();
      // What comes from now on isn't answered any more.
      closing = true;
      if (answer.close === 0) socket.end();
      else setTimeout(() => socket.end(), answer.close);
    }
  };
  const server = secure ? tls.createServer(secure, serveSocket) : net.createServer(serveSocket);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  const front: Front = {
    url: `http${secure ? "s" : ""}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked: [],
    connections: 0,
    behave: (_asked, given) => ({ bytes: whole(given) }),
    hangUp: () => false,
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
  return front;
}

/** A request with its body, once all of it is there. */
function request(
  head: string,
  rest: Buffer,
): { asked: Omit<Asked, "nth">; length: number } | null {
  const [first = "", ...lines] = head.split("\r\n");
  const [method = "", url = ""] = first.split(" ");
  const headers = new Map<string, string>();
  for (const line of lines) {
    const colon = line.indexOf(":");
    const name = line.slice(0, colon).toLowerCase();
    const before = headers.has(name) ? `${headers.get(name)}, ` : "";
    headers.set(name, before + line.slice(colon + 1).trim());
  }
  if (headers.get("transfer-encoding") !== "chunked") {
    const length = Number(headers.get("content-length") ?? 0);
    if (rest.length < length) return null;
    return { asked: { method, url, headers, body: rest.subarray(0, length) }, length };
  }
  const parts: Buffer[] = [];
  for (let at = 0;;) {
    const end = rest.indexOf("\r\n", at);
    if (end < 0) return null;
    const size = parseInt(rest.toString("latin1", at, end), 16);
    if (rest.length < end + 2 + size + 2) return null;
    parts.push(rest.subarray(end + 2, end + 2 + size));
    at = end + 2 + size + 2;
    if (size === 0) {
      return { asked: { method, url, headers, body: Buffer.concat(parts) }, length: at };
    }
  }
}

function pass(backend: string, { method, url, headers, body }: Omit<Asked, "nth">): Promise<Given> {
  // A proxy is told the whole url.
  const path = url.replace(/^http:\/\/[^/]*/, "");
  const kept = ["content-type", "content-encoding", "git-protocol", "accept"];
  return new Promise((resolve, reject) => {
    const sent = http.request(`${backend}${path}`, {
      method,
      headers: Object.fromEntries([
        ...[...headers].filter(([name]) => kept.includes(name)),
        ["content-length", String(body.length)],
      ]),
      agent: false,
    }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () =>
        resolve({
          status: response.statusCode ?? 0,
          type: response.headers["content-type"] ?? "",
          body: Buffer.concat(chunks),
        }));
    });
    sent.on("error", reject);
    sent.end(body);
  });
}
