/** `git http-backend` behind a small web server on loopback, with faults to switch on. */
import { Buffer } from "node:buffer";
import { spawn } from "node:child_process";
import http from "node:http";
import https from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { gitEnv } from "../../helpers/git.ts";

export interface Exchange {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: Buffer;
  /** Bytes of the answer, as git gave it. */
  answered: number;
}

/** May answer itself (returns true), or let git answer (false). */
export type Intercept = (
  exchange: Exchange,
  response: http.ServerResponse,
) => boolean | Promise<boolean>;

export interface GitServer {
  readonly url: string;
  readonly port: number;
  /** Everything that was asked, oldest first. */
  readonly log: Exchange[];
  intercept: Intercept | null;
  /** Changes git's answer: gets the whole body, returns what is sent and whether to hang up after it. */
  tamper:
    | ((exchange: Exchange, body: Buffer) => {
      body: Buffer;
      cut?: boolean;
      headers?: Record<string, string>;
    })
    | null;
  /** Keeps git from seeing the Git-Protocol header. */
  oldProtocol: boolean;
  close(): Promise<void>;
}

export async function serveGit(
  root: string,
  options: { basic?: string; tls?: { key: Buffer; cert: Buffer }; env?: Record<string, string> } =
    {},
): Promise<GitServer> {
  const log: Exchange[] = [];
  const handle = (request: http.IncomingMessage, response: http.ServerResponse) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      answer(request, response, Buffer.concat(chunks)).catch(() => response.destroy());
    });
  };
  async function answer(
    request: http.IncomingMessage,
    response: http.ServerResponse,
    input: Buffer,
  ): Promise<void> {
    const exchange = {
      method: request.method ?? "",
      url: request.url ?? "",
      headers: request.headers,
      body: input,
      answered: 0,
    };
    log.push(exchange);
    if (server.intercept && await server.intercept(exchange, response)) return;
    const credential = `Basic ${Buffer.from(options.basic ?? "").toString("base64")}`;
    if (options.basic && request.headers.authorization !== credential) {
      response.writeHead(401, { "WWW-Authenticate": 'Basic realm="git"' });
      response.end("who are you?");
      return;
    }
    const [path = "", query = ""] = exchange.url.split("?");
    const child = spawn("git", ["http-backend"], {
      env: {
        ...gitEnv(options.env),
        GIT_PROJECT_ROOT: root,
        GIT_HTTP_EXPORT_ALL: "1",
        PATH_INFO: decodeURIComponent(path),
        QUERY_STRING: query,
        REQUEST_METHOD: exchange.method,
        REMOTE_USER: "tester",
        HTTP_CONTENT_ENCODING: String(request.headers["content-encoding"] ?? ""),
        CONTENT_TYPE: request.headers["content-type"] ?? "",
        CONTENT_LENGTH: String(input.length),
        ...(server.oldProtocol ? {} : {
          GIT_PROTOCOL: String(request.headers["git-protocol"] ?? ""),
        }),
      },
      stdio: ["pipe", "pipe", "ignore"],
    });
    child.stdin.on("error", () => {});
    child.stdin.end(input);
    const output: Buffer[] = [];
    let head: { status: number; headers: Record<string, string> } | null = null;
    child.stdout.on("data", (chunk: Buffer) => {
      exchange.answered += chunk.length;
      // What comes is passed on as it comes: a hook may go on talking.
      if (head !== null && !server.tamper) return void response.write(chunk);
      output.push(chunk);
      const all = Buffer.concat(output);
      const end = all.indexOf("\r\n\r\n");
      if (head !== null || end < 0) return;
      head = parseHead(all.toString("latin1", 0, end));
      output.splice(0, output.length, all.subarray(end + 4));
      if (server.tamper) return;
      response.writeHead(head.status, head.headers);
      response.write(output[0]!);
    });
    await new Promise((resolve) => child.on("close", resolve));
    if (!server.tamper) return void response.end();
    const { status, headers } = head!;
    let body: Buffer = Buffer.concat(output);
    const changed = server.tamper(exchange, body);
    const cut = changed.cut ?? false;
    // A length that is never reached, so that a cut is one to the client.
    headers["Content-Length"] = String(cut ? body.length + 1 : changed.body.length);
    body = changed.body;
    response.writeHead(status, { ...headers, ...changed.headers });
    response.write(body);
    if (cut) setTimeout(() => response.destroy(), 20);
    else response.end();
  }
  const listener = options.tls
    ? https.createServer(options.tls, handle)
    : http.createServer(handle);
  const sockets = new Set<Socket>();
  listener.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", () => resolve()));
  const { port } = listener.address() as AddressInfo;
  const server: GitServer = {
    url: `${options.tls ? "https" : "http"}://127.0.0.1:${port}`,
    port,
    log,
    intercept: null,
    tamper: null,
    oldProtocol: false,
    close() {
      // Waiting for "close" would wait for handshakes that were broken off, under some runtimes.
      listener.close();
      for (const socket of sockets) socket.destroy();
      return Promise.resolve();
    },
  };
  return server;
}

/** The head of a CGI program's answer. */
function parseHead(text: string): { status: number; headers: Record<string, string> } {
  const headers: Record<string, string> = {};
  let status = 200;
  for (const line of text.split("\r\n")) {
    const colon = line.indexOf(":");
    const [name, value] = [line.slice(0, colon), line.slice(colon + 1).trim()];
    if (name === "Status") status = Number(value.slice(0, 3));
    else headers[name] = value;
  }
  return { status, headers };
}
