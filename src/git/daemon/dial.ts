/**
 * git:// : one TCP connection for each service, opened by one packet:
 *
 *   git-upload-pack /path NUL host=name:port NUL NUL version=2 NUL
 *
 * Nothing is encrypted and nobody is asked who they are.
 */
import net from "node:net";
import { AgentqError } from "../../errors.ts";
import { abortReason } from "../../platform/clock.ts";
import { pktLine } from "../pkt-line.ts";
import type { Channel, Dial } from "../stream/channel.ts";
import { urlDecoded } from "../url-decode.ts";
import { whyUnreachable } from "../unreachable.ts";

const PORT = 9418;

export function daemonDial(url: URL, name: string, limits: { connectMs: number }): Dial {
  const host = decoded(url.hostname, name).replace(/^\[(.*)\]$/, "$1");
  const port = url.port === "" ? PORT : Number(url.port);
  const path = decoded(url.pathname, name).replace(/^\/~/, "~");
  if (host === "" || path === "" || path === "/") {
    throw new AgentqError("url-unsupported", `Can't use ${name} as an origin: it names no path.`);
  }
  const place = `host=${url.hostname}${url.port === "" ? "" : `:${url.port}`}\0`;
  return {
    kind: "git",
    name,
    insists: false,
    async open(service, version2, signal) {
      const socket = await connect(host, port, name, limits.connectMs, signal);
      const more = version2 === "no" ? "" : "\0version=2\0";
      socket.write(pktLine(`${service} ${path}\0${place}${more}`));
      return channel(socket, name);
    },
    close() {},
  };
}

function decoded(path: string, name: string): string {
  const text = urlDecoded(path);
  if (text === null) {
    const why = `Can't use ${name} as an origin: what it escapes is no UTF-8.`;
    throw new AgentqError("url-unsupported", why);
  }
  if (text.includes("\0")) {
    throw new AgentqError("url-unsupported", `Can't use ${name} as an origin: it has a NUL in it.`);
  }
  return text;
}

function channel(socket: net.Socket, name: string): Channel {
  let cause: Error | undefined;
  socket.on("error", (error) => cause ??= error);
  return {
    readable: socket,
    writable: socket,
    explain() {
      const code = (cause as { code?: string } | undefined)?.code;
      const how = code ? ` (${code})` : "";
      return Promise.resolve(
        new AgentqError("origin-unreachable", `${name} hung up without an answer${how}.`, {
          cause,
          details: { errno: code },
        }),
      );
    },
    said: () => "",
    finish() {
      socket.end();
      socket.unref();
      // Unread bytes must not keep it open.
      socket.resume();
      setTimeout(() => socket.destroy(), 1000).unref?.();
    },
    destroy: () => void socket.destroy(),
  };
}

function connect(
  host: string,
  port: number,
  name: string,
  connectMs: number,
  signal: AbortSignal | undefined,
): Promise<net.Socket> {
  return new Promise((resolve, reject) => {
    const socket = net.connect({ host, port });
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
      socket.off("error", onError);
      // An error that comes later must find a listener.
      socket.on("error", () => {});
    };
    const fail = (error: Error) => {
      done();
      socket.destroy();
      reject(error);
    };
    const onAbort = () => fail(abortReason(signal!));
    const onError = (cause: Error & { code?: string }) => {
      fail(
        new AgentqError("origin-unreachable", `Can't reach ${name}: ${whyUnreachable(cause)}.`, {
          cause,
          details: { errno: cause.code },
        }),
      );
    };
    const timer = setTimeout(() => {
      const seconds = connectMs / 1000;
      fail(
        new AgentqError("origin-timeout", `${name} did not accept a connection in ${seconds} s.`),
      );
    }, connectMs);
    signal?.addEventListener("abort", onAbort, { once: true });
    socket.once("error", onError);
    socket.once("connect", () => {
      done();
      socket.setNoDelay(true);
      resolve(socket);
    });
  });
}
