/** Opening connections as the settings say: direct, through a proxy, with TLS. */
import { Buffer } from "node:buffer";
import { AgentqError } from "../../errors.ts";
import { abortReason } from "../../platform/clock.ts";
import type { GitConfig } from "../config.ts";
import { basic } from "./credentials.ts";
import { httpSettings, portOf, proxyFor } from "./settings.ts";
import {
  type Connection,
  connection,
  type ConnectLimits,
  connectTcp,
  type SocketLimits,
  startTls,
} from "./socket.ts";
import { tlsSettings } from "./tls-settings.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** Returns the function that a client opens its connections with. */
export function connector(
  config: GitConfig,
  env: Env,
  always: SocketLimits,
  remote: string | null = null,
) {
  const name = `remote.${remote}.proxy`;
  const text = remote === null ? null : config.get(name);
  const ofRemote = text === null ? null : { name, text };
  return async (
    url: URL,
    signal?: AbortSignal,
  ): Promise<{ connection: Connection; proxied: Record<string, string> | null }> => {
    const limits: ConnectLimits = { ...always, signal };
    const settings = httpSettings(config, url);
    const proxy = proxyFor(url, settings, env, ofRemote);
    const secure = url.protocol === "https:";
    const where = url.host;
    // Before anything is opened: what is wrong with them needs no server.
    const tls = secure || proxy?.url.protocol === "https:" ? tlsSettings(settings, env) : null;
    if (proxy === null) {
      const host = bare(url.hostname);
      const plain = await connectTcp(host, portOf(url), where, limits);
      const socket = tls ? await startTls(plain, host, where, tls, limits) : plain;
      return { connection: connection(socket, where, limits), proxied: null };
    }
    const proxyName = `the proxy ${proxy.url.host}`;
    const proxyHost = bare(proxy.url.hostname);
    const plain = await connectTcp(proxyHost, portOf(proxy.url), proxyName, limits);
    const toProxy = proxy.url.protocol === "https:"
      ? await startTls(plain, proxyHost, proxyName, tls!, limits)
      : plain;
    const authorization: Record<string, string> = proxy.login === null
      ? {}
      : { "Proxy-Authorization": basic(proxy.login) };
    if (!secure) {
      return { connection: connection(toProxy, where, limits), proxied: authorization };
    }
    const target = `${url.hostname}:${portOf(url)}`;
    const head = Object.entries({ Host: target, ...authorization })
      .map(([name, value]) => `${name}: ${value}\r\n`).join("");
    await tunnel(toProxy, `CONNECT ${target} HTTP/1.1\r\n${head}\r\n`, proxyName, limits);
    const host = bare(url.hostname);
    const socket = await startTls(toProxy, host, where, tls!, limits);
    return { connection: connection(socket, where, limits), proxied: null };
  };
}

const bare = (hostname: string) => hostname.replace(/^\[(.*)\]$/, "$1");

/** Asks a proxy for a tunnel and waits until it stands. */
function tunnel(
  socket: Awaited<ReturnType<typeof connectTcp>>,
  request: string,
  proxyName: string,
  limits: ConnectLimits,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let answer = Buffer.alloc(0);
    const { signal } = limits;
    const onAbort = () => settle(abortReason(signal!));
    const settle = (error?: Error) => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
      socket.off("data", onData);
      socket.off("close", onClose);
      if (error) {
        socket.destroy();
        reject(error);
      } else resolve();
    };
    const refused = (what: string) =>
      new AgentqError("origin-unreachable", `${proxyName} ${what}.`);
    const timer = setTimeout(
      () => settle(new AgentqError("origin-timeout", `${proxyName} opened no tunnel in time.`)),
      limits.connectMs,
    );
    const onClose = () => settle(refused("closed the connection"));
    const onData = (chunk: Buffer) => {
      answer = Buffer.concat([answer, chunk]);
      const end = answer.indexOf("\r\n\r\n");
      if (end < 0) {
        if (answer.length > 65536) settle(refused("sent endless headers"));
        return;
      }
      const status = /^HTTP\/1\.[01] (\d{3})/.exec(answer.toString("latin1", 0, 64))?.[1];
      // tinyproxy says 401 where 407 is meant: nobody but the proxy can answer here.
      if (status === "407" || status === "401") {
        return settle(
          new AgentqError("auth-required", `${proxyName} asks for a user name and password.`, {
            hint: "Put them into the proxy's url (http.proxy or https_proxy).",
          }),
        );
      }
      if (!status?.startsWith("2")) {
        return settle(refused(`refused a tunnel (HTTP ${status ?? "?"})`));
      }
      if (answer.length > end + 4) return settle(refused("sent data of its own into the tunnel"));
      settle();
    };
    socket.on("data", onData);
    socket.once("close", onClose);
    if (signal?.aborted) return onAbort();
    signal?.addEventListener("abort", onAbort, { once: true });
    socket.write(request);
  });
}
