/**
 * A fault proxy in front of a smart HTTP server: it reads each request whole, asks the scenario what
 * to do with it, and can cut, stall, delay, or answer in the server's place. Raw sockets, so that
 * "cut off" means exactly that.
 */
import { Buffer } from "node:buffer";
import { connect, createServer, type Socket } from "node:net";

/** One request as the scenario sees it. */
export interface ProxiedRequest {
  /** 0, 1, 2, … in order of arrival. */
  readonly index: number;
  readonly method: string;
  readonly path: string;
  /** `advertise`, `fetch` or `push`: what git's smart protocol does with it. */
  readonly service: "advertise" | "fetch" | "push" | "other";
  readonly head: string;
  readonly body: Buffer;
}

export type Fault =
  /** Pass it through. */
  | "pass"
  /** Close the connection without forwarding. */
  | "cut-before"
  /** Forward it, wait for the server's whole answer, then close without a byte of it. */
  | "cut-after"
  /** Forward it and close after half of the server's answer. */
  | "cut-half"
  /** Never answer. */
  | "stall"
  /** Send half of the answer and then nothing more. */
  | "stall-half"
  /** Answer in the server's place. */
  | { readonly answer: string | Buffer }
  /** Forward it when the promise resolves. */
  | { readonly hold: Promise<unknown> }
  /** Run something between the server's answer and the client. */
  | { readonly after: () => unknown };

export interface FaultProxy {
  readonly port: number;
  readonly requests: ProxiedRequest[];
  /** What to do with the next requests; "pass" for all unless set. */
  decide: (request: ProxiedRequest) => Fault;
  stop(): void;
}

/** An HTTP answer with a body. */
export function httpAnswer(status: string, body = "", headers: readonly string[] = []): string {
  return [
    `HTTP/1.1 ${status}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Connection: close",
    ...headers,
    "",
    body,
  ].join("\r\n");
}

/** Starts a proxy in front of 127.0.0.1:`upstreamPort`. */
export function startProxy(upstreamPort: number): Promise<FaultProxy> {
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    sockets.add(client);
    client.on("close", () => sockets.delete(client));
    client.on("error", () => {});
    serveClient(proxy, client, upstreamPort);
  });
  const proxy: FaultProxy & { port: number } = {
    port: 0,
    requests: [],
    decide: () => "pass",
    stop() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
  return new Promise((resolve, reject) => {
    server.on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      proxy.port = (server.address() as { port: number }).port;
      resolve(proxy);
    });
  });
}

function serveClient(proxy: FaultProxy, client: Socket, upstreamPort: number): void {
  let buffered: Buffer = Buffer.alloc(0);
  let continued = false;
  let taken = false;
  client.on("data", (chunk) => {
    if (taken) return;
    buffered = Buffer.concat([buffered, chunk as Buffer]);
    const end = buffered.indexOf("\r\n\r\n");
    if (end < 0) return;
    const head = buffered.subarray(0, end).toString("latin1");
    if (/^expect: *100-continue/im.test(head) && !continued) {
      continued = true;
      client.write("HTTP/1.1 100 Continue\r\n\r\n");
    }
    const body = wholeBody(head, buffered.subarray(end + 4));
    if (body === null) return;
    taken = true;
    const [method = "", path = ""] = head.split(" ");
    const request: ProxiedRequest = {
      index: proxy.requests.length,
      method,
      path,
      service: serviceOf(method, path),
      head,
      body,
    };
    proxy.requests.push(request);
    void act(proxy.decide(request), request, client, upstreamPort);
  });
}

function serviceOf(method: string, path: string): ProxiedRequest["service"] {
  if (method === "GET" && path.includes("/info/refs")) return "advertise";
  if (path.endsWith("/git-receive-pack")) return "push";
  if (path.endsWith("/git-upload-pack")) return "fetch";
  return "other";
}

/** The request's body with chunking undone, or null while it isn't whole. */
function wholeBody(head: string, rest: Buffer): Buffer | null {
  if (/^transfer-encoding: *chunked/im.test(head)) {
    const parts: Buffer[] = [];
    for (let at = 0;;) {
      const line = rest.indexOf("\r\n", at);
      if (line < 0) return null;
      const size = parseInt(rest.subarray(at, line).toString("latin1"), 16);
      if (rest.length < line + 2 + size + 2) return null;
      if (size === 0) return Buffer.concat(parts);
      parts.push(rest.subarray(line + 2, line + 2 + size));
      at = line + 2 + size + 2;
    }
  }
  const length = Number(/^content-length: *(\d+)/im.exec(head)?.[1] ?? 0);
  return rest.length < length ? null : rest.subarray(0, length);
}

async function act(
  fault: Fault,
  request: ProxiedRequest,
  client: Socket,
  upstreamPort: number,
): Promise<void> {
  if (fault === "stall") return;
  if (fault === "cut-before") return void client.destroy();
  if (typeof fault === "object" && "answer" in fault) return void client.end(fault.answer);
  if (typeof fault === "object" && "hold" in fault) await fault.hold;
  const answer = await forward(request, upstreamPort);
  if (fault === "cut-after") return void client.destroy();
  if (fault === "cut-half" || fault === "stall-half") {
    client.write(answer.subarray(0, answer.length >> 1), () => {
      if (fault === "cut-half") client.destroy();
    });
    return;
  }
  if (typeof fault === "object" && "after" in fault) await fault.after();
  client.end(answer);
}

/** Sends the request upstream on a connection of its own and collects the whole answer. */
function forward(request: ProxiedRequest, port: number): Promise<Buffer> {
  const headers = request.head.split("\r\n").filter((line) =>
    !/^(connection|transfer-encoding|content-length|expect):/i.test(line)
  );
  headers.push("Connection: close", `Content-Length: ${request.body.length}`);
  return new Promise((resolve) => {
    const upstream = connect(port, "127.0.0.1");
    const parts: Buffer[] = [];
    upstream.on("data", (chunk) => parts.push(chunk as Buffer));
    upstream.on("error", () => {});
    upstream.on("close", () => resolve(Buffer.concat(parts)));
    upstream.write(headers.join("\r\n") + "\r\n\r\n");
    upstream.write(request.body);
  });
}
