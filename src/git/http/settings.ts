/** `http.*` settings for one url: `http.<url>.<key>` where it fits best, else `http.<key>`. */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { AgentqError } from "../../errors.ts";
import { parseBoolean, parseInteger } from "../config-file.ts";
import type { GitConfig } from "../config.ts";
import { expandHome } from "../config-sources.ts";
import { urlDecoded } from "../url-decode.ts";
import type { TlsSettings } from "./socket.ts";
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

/** Where systems keep the authorities they trust. */
const SYSTEM_BUNDLES = [
  "/etc/ssl/certs/ca-certificates.crt",
  "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/ssl/cert.pem",
];

/** Trust and client certificate. @throws `config-invalid` for a file that can't be read */
export function tlsSettings(settings: HttpSettings, env: Env): TlsSettings {
  const file = (path: string, key: string) => {
    try {
      return readFileSync(expandHome(path, env));
    } catch (cause) {
      const code = (cause as { code?: string }).code;
      throw new AgentqError(
        "config-invalid",
        `${key} names ${path}, which can't be read (${code || cause}).`,
        {
          cause,
        },
      );
    }
  };
  const named = env.GIT_SSL_CAINFO ?? settings.get("sslCAInfo") ?? env.SSL_CERT_FILE;
  const bundle = named ?? SYSTEM_BUNDLES.find((path) => existsSync(path));
  // Known to Node programs beside the system's own; a list that is named stands for itself.
  const extra = named === undefined ? env.NODE_EXTRA_CA_CERTS : undefined;
  const directory = env.GIT_SSL_CAPATH ?? settings.get("sslCAPath");
  const authorities = [bundle, extra, ...certificatesIn(directory, env)]
    .filter((path) => path !== undefined && path !== "");
  const off = env.GIT_SSL_NO_VERIFY;
  const verify = off !== undefined && parseBoolean(off) !== false && off !== ""
    ? false
    : settings.boolean("sslVerify", true);
  const cert = env.GIT_SSL_CERT ?? settings.get("sslCert");
  const key = env.GIT_SSL_KEY ?? settings.get("sslKey") ?? cert;
  return {
    verify,
    ...(authorities.length > 0 && verify
      ? { ca: authorities.map((path) => file(path!, "the list of certificate authorities")) }
      : {}),
    ...(cert ? { cert: file(cert, "http.sslCert"), key: file(key!, "http.sslKey") } : {}),
  };
}

/** The files of a directory of authorities, `http.sslCAPath`. */
function certificatesIn(directory: string | null, env: Env): string[] {
  if (!directory) return [];
  const path = expandHome(directory, env);
  try {
    return readdirSync(path).map((name) => join(path, name)).filter((name) => {
      const stat = statSync(name, { throwIfNoEntry: false });
      return stat?.isFile() === true;
    });
  } catch (cause) {
    const code = (cause as { code?: string }).code;
    throw new AgentqError("config-invalid", `http.sslCAPath can't be read (${code}).`, { cause });
  }
}

export interface Proxy {
  readonly url: URL;
  readonly login: { readonly username: string; readonly password: string } | null;
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
