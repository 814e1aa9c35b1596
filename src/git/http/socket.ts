/**
 * One connection to a web server: TCP, perhaps through a proxy, perhaps TLS; read by pulling, with
 * limits on how long it may take to stand and to stay silent. Every failure becomes a typed error here.
 */
import { Buffer } from "node:buffer";
import net from "node:net";
import tls from "node:tls";
import { AgentqError } from "../../errors.ts";
import { abortReason } from "../../platform/clock.ts";
import { socketError } from "./socket-error.ts";

export interface SocketLimits {
  readonly connectMs: number;
  readonly idleMs: number;
  /** Bytes that must pass, either way, within `idleMs`; any number will do unless given. */
  readonly minBytes?: number;
}

/** How a connection is to be opened. */
export interface ConnectLimits extends SocketLimits {
  /** Gives up while the connection doesn't stand yet. */
  readonly signal?: AbortSignal | undefined;
}

export interface TlsSettings {
  /** PEM of the authorities to trust; undefined: the runtime's own. */
  readonly ca?: readonly Buffer[];
  readonly verify: boolean;
  readonly cert?: Buffer;
  readonly key?: Buffer;
}

export interface Connection {
  /** Resolves when the bytes are with the kernel, or queued for it in a bounded buffer. */
  write(data: Uint8Array): Promise<void>;
  /** The next bytes; null at the end of the stream. */
  read(): Promise<Buffer | null>;
  /** Bytes that were read too many go back to be read again. */
  unread(data: Buffer): void;
  /** Another request begins: how slow the last one was doesn't count, nor what came for it. */
  begin(): void;
  /** True once a byte has come since {@link begin}. */
  heard(): boolean;
  /** True while nothing has gone wrong and the other side hasn't closed. */
  usable(): boolean;
  /** Ends every waiting call with this error, or silently. */
  destroy(error?: Error): void;
}

/** Opens a TCP connection. */
export function connectTcp(
  host: string,
  port: number,
  where: string,
  limits: ConnectLimits,
): Promise<net.Socket> {
  return new Promise((resolve, reject) => {
    const socket = net.connect({ host, port });
    settleConnect(socket, "connect", where, limits, false, resolve, reject);
  });
}

/** Turns a connected socket into a verified TLS one. */
export function startTls(
  socket: net.Socket,
  host: string,
  where: string,
  settings: TlsSettings,
  limits: ConnectLimits,
): Promise<tls.TLSSocket> {
  return new Promise((resolve, reject) => {
    let secure: tls.TLSSocket;
    try {
      secure = tls.connect({
        socket,
        ...(net.isIP(host) ? { host } : { servername: host, host }),
        ALPNProtocols: ["http/1.1"],
        rejectUnauthorized: settings.verify,
        ...(settings.ca ? { ca: [...settings.ca] } : {}),
        ...(settings.cert ? { cert: settings.cert } : {}),
        ...(settings.key ? { key: settings.key } : {}),
      });
    } catch (cause) {
      socket.destroy();
      const words = cause instanceof Error ? cause.message : String(cause);
      throw new AgentqError(
        "config-invalid",
        `The TLS files for ${where} (http.sslCAInfo, http.sslCert, http.sslKey) can't be used: ${words}.`,
        { cause },
      );
    }
    settleConnect(secure, "secureConnect", where, limits, true, resolve, (error) => {
      // Destroying the outer one doesn't end the inner one under every runtime.
      socket.destroy();
      reject(error);
    });
  });
}

function settleConnect<S extends net.Socket>(
  socket: S,
  event: "connect" | "secureConnect",
  where: string,
  limits: ConnectLimits,
  handshaking: boolean,
  resolve: (socket: S) => void,
  reject: (error: Error) => void,
): void {
  const timer = setTimeout(() => {
    const seconds = limits.connectMs / 1000;
    fail(
      new AgentqError("origin-timeout", `${where} did not accept a connection in ${seconds} s.`),
    );
  }, limits.connectMs);
  const fail = (cause: unknown) => {
    done();
    socket.destroy();
    reject(socketError(cause, where, handshaking));
  };
  const { signal } = limits;
  const onAbort = () => {
    done();
    socket.destroy();
    reject(abortReason(signal!));
  };
  const onClose = () => fail(Object.assign(new Error("closed"), { code: "ECONNRESET" }));
  const done = () => {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
    socket.off("error", fail);
    socket.off("close", onClose);
    // An error that comes later must find a listener.
    socket.on("error", () => {});
  };
  socket.once("error", fail);
  socket.once("close", onClose);
  socket.once(event, () => {
    done();
    resolve(socket);
  });
  if (signal?.aborted) onAbort();
  else signal?.addEventListener("abort", onAbort, { once: true });
}

/** Bytes that may lie unread before the other side is asked to wait. */
const HIGH_WATER = 1024 * 1024;

/** Wraps a connected socket. */
export function connection(socket: net.Socket, where: string, limits: SocketLimits): Connection {
  const chunks: Buffer[] = [];
  let queued = 0;
  let ended = false;
  let failure: Error | null = null;
  let wake: (() => void) | null = null;
  let waiting = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const { idleMs, minBytes = 1 } = limits;
  /** What is left of the time in which `minBytes` must pass, and what has passed in it. */
  let left = idleMs;
  let passed = 0;
  let since = 0;
  let heard = false;

  const notify = () => {
    const waker = wake;
    wake = null;
    waker?.();
  };
  const fail = (error: Error) => {
    failure ??= error;
    clearTimeout(timer);
    notify();
  };
  /** The clock runs only while somebody waits for the other side. */
  const run = () => {
    since = performance.now();
    timer = setTimeout(() => {
      const how = passed === 0
        ? `has been silent for ${idleMs / 1000} s`
        : `gave and took ${passed} bytes in ${idleMs / 1000} s, less than http.lowSpeedLimit`;
      fail(new AgentqError("origin-timeout", `${where} ${how}.`));
      socket.destroy();
    }, Math.max(0, left));
  };
  const stop = () => {
    clearTimeout(timer);
    left -= performance.now() - since;
  };
  const wind = () => {
    left = idleMs;
    passed = 0;
  };
  const moved = (bytes: number) => {
    passed += bytes;
    if (passed < minBytes) return;
    clearTimeout(timer);
    wind();
    if (waiting > 0) run();
  };
  const during = async <T>(work: () => Promise<T>): Promise<T> => {
    if (waiting++ === 0) {
      if (minBytes === 1) wind();
      run();
    }
    try {
      return await work();
    } finally {
      if (--waiting === 0) stop();
    }
  };

  socket.setNoDelay(true);
  socket.on("data", (chunk: Buffer) => {
    heard = true;
    chunks.push(chunk);
    queued += chunk.length;
    if (queued > HIGH_WATER) socket.pause();
    moved(chunk.length);
    notify();
  });
  socket.on("end", () => {
    ended = true;
    notify();
  });
  socket.on("error", (cause: Error) => fail(socketError(cause, where)));
  socket.on("close", () => {
    ended = true;
    clearTimeout(timer);
    notify();
  });

  return {
    write: (data) =>
      during(async () => {
        if (failure) throw failure;
        if (ended) throw socketError({ code: "EPIPE" }, where);
        if (socket.write(data)) return;
        await new Promise<void>((resolve) => {
          const settle = () => {
            socket.off("drain", settle);
            socket.off("close", settle);
            resolve();
          };
          socket.once("drain", settle);
          socket.once("close", settle);
        });
        moved(data.length);
        if (failure) throw failure;
      }),
    read: () =>
      during(async () => {
        while (chunks.length === 0) {
          if (failure) throw failure;
          if (ended) return null;
          await new Promise<void>((resolve) => wake = resolve);
        }
        const chunk = chunks.shift()!;
        queued -= chunk.length;
        if (queued <= HIGH_WATER / 2) socket.resume();
        return chunk;
      }),
    unread(data) {
      if (data.length === 0) return;
      chunks.unshift(data);
      queued += data.length;
    },
    begin() {
      heard = false;
      wind();
    },
    heard: () => heard,
    usable: () => !ended && failure === null && chunks.length === 0 && !socket.destroyed,
    destroy(error) {
      if (error) fail(error);
      ended = true;
      clearTimeout(timer);
      socket.destroy();
      notify();
    },
  };
}
