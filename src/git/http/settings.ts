/** `http.*` settings for one url: `http.<url>.<key>` where it fits best, else `http.<key>`. */
import { readFileSync } from "node:fs";
import { existsSync } from "node:fs";
import { AgentqError } from "../../errors.ts";
import { parseBoolean } from "../config-file.ts";
import { expandHome, type GitConfig } from "../config.ts";
import type { TlsSettings } from "./socket.ts";

type Env = Readonly<Record<string, string | undefined>>;

export interface HttpSettings {
  /** All values of a key, least important first. */
  all(key: string): string[];
  get(key: string): string | null;
  boolean(key: string, otherwise: boolean): boolean;
}

/** Settings as git applies them to requests for `url`. */
export function httpSettings(config: GitConfig, url: URL): HttpSettings {
  const ranked: { rank: number; key: string; value: string }[] = [];
  for (const { key, value } of config.entries()) {
    if (!key.startsWith("http.")) continue;
    const last = key.lastIndexOf(".");
    const rank = last === 4 ? 0 : matchRank(key.slice(5, last), url);
    if (rank !== null) ranked.push({ rank, key: key.slice(last + 1), value: value ?? "true" });
  }
  ranked.sort((a, b) => a.rank - b.rank);
  const all = (key: string) =>
    ranked.filter((entry) => entry.key === key.toLowerCase()).map(({ value }) => value);
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
  };
}

/** How well a `http.<pattern>` fits a url: longer paths before shorter, a user name before none. */
function matchRank(pattern: string, url: URL): number | null {
  let wanted: URL;
  try {
    wanted = new URL(pattern.replace("*", "wildcard-label"));
  } catch {
    return null;
  }
  if (wanted.protocol !== url.protocol || wanted.port !== url.port) return null;
  const labels = wanted.hostname.split(".");
  const actual = url.hostname.split(".");
  if (labels.length !== actual.length) return null;
  if (!labels.every((label, i) => label === "wildcard-label" || label === actual[i])) return null;
  if (wanted.username !== "" && wanted.username !== url.username) return null;
  const path = wanted.pathname.replace(/\/+$/, "");
  if (path !== "" && url.pathname !== path && !url.pathname.startsWith(`${path}/`)) return null;
  const exact = labels.includes("wildcard-label") ? 0 : 1;
  return 1 + exact * 1_000_000 + path.length * 2 + (wanted.username === "" ? 0 : 1);
}

/**
 * How long a server may be silent, in milliseconds, as git is told it: `GIT_HTTP_LOW_SPEED_TIME`, else
 * `http.lowSpeedTime`, in seconds. Null when neither is a positive number.
 */
export function lowSpeedTime(settings: HttpSettings, env: Env): number | null {
  const seconds = Number(env.GIT_HTTP_LOW_SPEED_TIME ?? settings.get("lowSpeedTime") ?? 0);
  return Number.isFinite(seconds) && seconds > 0 && seconds <= 86_400 ? seconds * 1000 : null;
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
  const authorities = [bundle, extra].filter((path) => path !== undefined && path !== "");
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

/** The proxy for a url, or null. Lower-case variables as curl reads them; HTTP_PROXY never (CGI). */
export function proxyFor(url: URL, settings: HttpSettings, env: Env): URL | null {
  const excluded = (env.no_proxy ?? env.NO_PROXY ?? "").split(/[\s,]+/).filter((item) =>
    item !== ""
  );
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1").toLowerCase();
  for (const item of excluded) {
    const [name, port] = splitPort(item.toLowerCase().replace(/^\*?\./, ""));
    if (port !== null && port !== portOf(url)) continue;
    if (name === "*" || host === name || host.endsWith(`.${name}`)) return null;
  }
  const secure = url.protocol === "https:";
  const text = settings.get("proxy") ??
    (secure ? env.https_proxy ?? env.HTTPS_PROXY : env.http_proxy) ?? env.all_proxy ??
    env.ALL_PROXY ?? "";
  if (text === "") return null;
  let proxy: URL;
  try {
    proxy = new URL(text.includes("://") ? text : `http://${text}`);
  } catch {
    throw new AgentqError("config-invalid", "The proxy's url is malformed.");
  }
  if (proxy.protocol !== "http:" && proxy.protocol !== "https:") {
    throw new AgentqError(
      "config-invalid",
      `Proxies of kind ${proxy.protocol}// are not supported.`,
    );
  }
  return proxy;
}

function splitPort(item: string): [string, number | null] {
  const match = /^(\[.*\]|[^:]*):(\d+)$/.exec(item);
  return match ? [match[1]!, Number(match[2])] : [item, null];
}

export function portOf(url: URL): number {
  return url.port !== "" ? Number(url.port) : url.protocol === "https:" ? 443 : 80;
}
