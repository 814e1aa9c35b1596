/** `http.*` settings for one url: `http.<url>.<key>` where it fits best, else `http.<key>`. */
import { BlockList, isIP } from "node:net";
import { AgentqError } from "../../errors.ts";
import { parseBoolean, parseInteger } from "../config-file.ts";
import type { GitConfig } from "../config.ts";
import { urlDecoded } from "../url-decode.ts";
import { urlMatchRank } from "./url-match.ts";

type Env = Readonly<Record<string, string | undefined>>;

export interface HttpSettings {
  /** All values of a key, least important first. */
  all(key: string): string[];
  get(key: string): string | null;
  boolean(key: string, otherwise: boolean): boolean;
  /** Null when unset. @throws `config-invalid` */
  integer(key: string): number | null;
}

/**
 * Settings as git applies them to requests for `url`: read in order, and one that fits worse than an
 * earlier one of the same key is passed over.
 */
export function httpSettings(config: GitConfig, url: URL): HttpSettings {
  const taken = new Map<string, { rank: number; values: string[] }>();
  for (const { key, value } of config.entries()) {
    if (!key.startsWith("http.")) continue;
    const last = key.lastIndexOf(".");
    const rank = last === 4 ? 0 : urlMatchRank(key.slice(5, last), url);
    if (rank === null) continue;
    const name = key.slice(last + 1);
    const before = taken.get(name);
    if (before && rank < before.rank) continue;
    taken.set(name, { rank, values: [...before?.values ?? [], value ?? "true"] });
  }
  const all = (key: string) => taken.get(key.toLowerCase())?.values ?? [];
  const get = (key: string) => all(key).at(-1) ?? null;
  return {
    all,
    get,
    boolean(key, otherwise) {
      const value = get(key);
      if (value === null) return otherwise;
      const parsed = parseBoolean(value);
      if (parsed === undefined) {
        throw new AgentqError("config-invalid", `http.${key} is not a boolean.`);
      }
      return parsed;
    },
    integer(key) {
      const value = get(key);
      if (value === null) return null;
      const parsed = parseInteger(value);
      if (parsed === undefined) {
        throw new AgentqError("config-invalid", `http.${key} is not a number.`);
      }
      return parsed;
    },
  };
}

/**
 * How slow a server may be, as git is told it: `http.lowSpeedTime` seconds (`GIT_HTTP_LOW_SPEED_TIME`)
 * with fewer than `http.lowSpeedLimit` bytes a second (`GIT_HTTP_LOW_SPEED_LIMIT`); without a limit,
 * in silence. Null when the time is no positive number.
 */
export function lowSpeed(
  settings: HttpSettings,
  env: Env,
): { idleMs: number; minBytes: number } | null {
  const number = (variable: string, key: string) => {
    const value = Number(env[variable] ?? settings.get(key) ?? 0);
    return Number.isFinite(value) && value > 0 ? value : 0;
  };
  const seconds = number("GIT_HTTP_LOW_SPEED_TIME", "lowSpeedTime");
  if (seconds === 0 || seconds > 86_400) return null;
  const limit = number("GIT_HTTP_LOW_SPEED_LIMIT", "lowSpeedLimit");
  return { idleMs: seconds * 1000, minBytes: Math.max(1, limit * seconds) };
}

export interface Proxy {
  readonly url: URL;
  readonly login: { readonly username: string; readonly password: string } | null;
}

/** Whether an address lies in a block as curl reads them, `10.0.0.0/8` or `fd00::/8`. */
function liesIn(host: string, block: string): boolean {
  const [, network, bits] = /^([0-9a-f.:]+)\/(\d{1,3})$/i.exec(block) ?? [];
  const family = isIP(host);
  if (network === undefined || family === 0 || isIP(network) !== family) return false;
  if (Number(bits) > (family === 4 ? 32 : 128)) return false;
  const list = new BlockList();
  const kind = family === 4 ? "ipv4" : "ipv6";
  list.addSubnet(network, Number(bits), kind);
  return list.check(host, kind);
}

/**
 * The proxy for a url, or null; `ofRemote` is `remote.<name>.proxy`. Lower-case variables as curl reads
 * them; HTTP_PROXY never (CGI).
 * @throws `config-invalid` naming the setting
 */
export function proxyFor(
  url: URL,
  settings: HttpSettings,
  env: Env,
  ofRemote: { readonly name: string; readonly text: string } | null = null,
): Proxy | null {
  const excluded = (env.no_proxy ?? env.NO_PROXY ?? "").split(/[\s,]+/).filter((item) =>
    item !== ""
  );
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1").toLowerCase();
  for (const item of excluded) {
    if (liesIn(host, item)) return null;
    const [name, port] = splitPort(item.toLowerCase().replace(/^\*?\./, ""));
    if (port !== null && port !== portOf(url)) continue;
    if (name === "*" || host === name || host.endsWith(`.${name}`)) return null;
  }
  const found = proxySetting(url, settings, env, ofRemote);
  if (found === null || found.text === "") return null;
  const { text, name } = found;
  let proxy: URL;
  try {
    proxy = new URL(text.includes("://") ? text : `http://${text}`);
  } catch {
    throw new AgentqError("config-invalid", `${name} is a malformed url.`);
  }
  if (proxy.protocol !== "http:" && proxy.protocol !== "https:") {
    throw new AgentqError(
      "config-invalid",
      `${name} names a proxy of kind ${proxy.protocol}//, which is not supported.`,
    );
  }
  const username = urlDecoded(proxy.username);
  const password = urlDecoded(proxy.password);
  if (username === null || password === null) {
    throw new AgentqError(
      "config-invalid",
      `${name} has a user name or password whose escapes are no UTF-8.`,
      { hint: "A percent sign itself is written %25." },
    );
  }
  return { url: proxy, login: username === "" ? null : { username, password } };
}

/** Where a proxy is named, and how: a remote's own setting, the config, the environment. */
function proxySetting(
  url: URL,
  settings: HttpSettings,
  env: Env,
  ofRemote: { readonly name: string; readonly text: string } | null,
): { name: string; text: string } | null {
  if (ofRemote !== null) return ofRemote;
  const setting = settings.get("proxy");
  if (setting !== null) return { name: "http.proxy", text: setting };
  const own = url.protocol === "https:" ? ["https_proxy", "HTTPS_PROXY"] : ["http_proxy"];
  for (const name of [...own, "all_proxy", "ALL_PROXY"]) {
    const text = env[name];
    if (text !== undefined) return { name, text };
  }
  return null;
}

function splitPort(item: string): [string, number | null] {
  const match = /^(\[.*\]|[^:]*):(\d+)$/.exec(item);
  return match ? [match[1]!, Number(match[2])] : [item, null];
}

export function portOf(url: URL): number {
  return url.port !== "" ? Number(url.port) : url.protocol === "https:" ? 443 : 80;
}
