/** From the name of a remote, or a url, to what a transport can open; and urls as they may be printed. */
import { existsSync } from "node:fs";
import { isAbsolute, resolve } from "node:path";
import { AgentqError } from "../errors.ts";
import { nodeUrl } from "../platform/builtins.ts";
import { homeOfUser } from "../platform/users.ts";
import type { GitConfig } from "./config.ts";
import { urlDecoded } from "./url-decode.ts";
import { rewriteUrl } from "./url-rewrite.ts";

export interface Remote {
  /** The remote's name in the config; null when a url was given. */
  readonly name: string | null;
  readonly fetchUrl: string;
  readonly pushUrl: string;
}

export type RemoteLocation =
  | { readonly kind: "file"; readonly path: string }
  | { readonly kind: "http"; readonly url: URL }
  | { readonly kind: "git"; readonly url: URL }
  | {
    readonly kind: "ssh";
    readonly host: string;
    readonly user: string | null;
    readonly port: number | null;
    readonly path: string;
  };

/**
 * The urls behind a remote's name or url, `insteadOf` applied. A bare word that is no remote is a path
 * where something of that name is in `base`, as git takes it.
 * @param reading nothing will be pushed there: how many places a push would go to doesn't matter
 * @throws `remote-unknown` for a name the config doesn't have, when it can't be a url or path either;
 * `config-invalid` for a remote that git pushes to several places
 */
export function resolveRemote(
  config: GitConfig | null,
  nameOrUrl: string,
  base?: string,
  reading = false,
): Remote {
  const rewrite = (url: string, direction: "fetch" | "push") =>
    config ? rewriteUrl(config, url, direction) : url;
  const urls = config?.getAll(`remote.${nameOrUrl}.url`) ?? [];
  const fetch = urls[0];
  if (fetch !== undefined) {
    const explicit = config!.getAll(`remote.${nameOrUrl}.pushurl`);
    // pushInsteadOf doesn't apply to an explicit pushurl.
    const pushed = explicit.length > 0
      ? explicit.map((url) => rewrite(url, "fetch"))
      : urls.map((url) => rewrite(url, "push"));
    if (!reading) refuseSeveral(nameOrUrl, explicit.length > 0 ? "pushurl" : "url", pushed);
    return { name: nameOrUrl, fetchUrl: rewrite(fetch, "fetch"), pushUrl: pushed[0]! };
  }
  const isWord = !/[/\\:]/.test(nameOrUrl) && nameOrUrl !== "." && nameOrUrl !== "..";
  const isPath = () => base !== undefined && existsSync(resolve(base, nameOrUrl));
  if (isWord && (nameOrUrl === "" || !isPath())) {
    const known = config?.subsections("remote") ?? [];
    throw new AgentqError("remote-unknown", `There is no remote ${JSON.stringify(nameOrUrl)}.`, {
      hint: known.length > 0
        ? `Remotes here: ${known.map((name) => JSON.stringify(name)).join(", ")}. A url works too.`
        : "This clone has no remotes: pass --remote URL, or add one with git remote add.",
      details: { remote: nameOrUrl },
    });
  }
  return {
    name: null,
    fetchUrl: rewrite(nameOrUrl, "fetch"),
    pushUrl: rewrite(nameOrUrl, "push"),
  };
}

/** Git pushes to each of them. A queue that moved in one place only would be another one in the next. */
function refuseSeveral(name: string, key: "url" | "pushurl", urls: readonly string[]): void {
  const places = new Set(urls).size;
  if (places < 2) return;
  throw new AgentqError(
    "config-invalid",
    `Git pushes to ${places} places for the remote ${JSON.stringify(name)} ` +
      `(remote.${name}.${key}), and a queue has one: no compare-and-swap spans several.`,
    {
      hint:
        "Name the queue's origin with --remote URL, or for good with: git config agentq.remote URL. " +
        "Let a hook there push on to the others.",
      details: { remote: name, urls: [...new Set(urls)].map(redactUrl) },
    },
  );
}

/**
 * What kind of origin a url names, as git reads it. `base` is where relative paths count from.
 * @throws `url-unsupported`
 */
export function parseRemoteUrl(
  url: string,
  base: string,
  env: Readonly<Record<string, string | undefined>> = process.env,
): RemoteLocation {
  if (url.includes("\0") || url.includes("\n")) {
    throw new AgentqError("url-unsupported", "The remote's url has a NUL or newline in it.");
  }
  const scheme = /^([A-Za-z][A-Za-z0-9+.-]*):\/\//.exec(url)?.[1]?.toLowerCase();
  if (scheme === undefined) {
    const colon = url.indexOf(":");
    const slash = url.indexOf("/");
    const scp = colon > 0 && (slash < 0 || colon < slash);
    if (!scp || isAbsolute(url)) return { kind: "file", path: resolve(base, atHome(url, env)) };
    if (/^[A-Za-z][A-Za-z0-9+.-]*::/.test(url)) {
      throw unsupported(url, "remote helpers are not supported");
    }
    return parseScp(url);
  }
  if (scheme === "file") return { kind: "file", path: filePath(url) };
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    throw unsupported(url, "it is malformed");
  }
  switch (scheme) {
    case "http":
    case "https":
      if (parsed.hostname === "") throw unsupported(url, "it names no host");
      return { kind: "http", url: parsed };
    case "git":
      return { kind: "git", url: parsed };
    case "ssh":
    case "git+ssh":
    case "ssh+git":
      return checkedSsh({
        kind: "ssh",
        host: decoded(parsed.hostname.replace(/^\[(.*)\]$/, "$1"), url),
        user: parsed.username === "" ? null : decoded(parsed.username, url),
        port: parsed.port === "" ? null : Number(parsed.port),
        path: decoded(parsed.pathname, url).replace(/^\/~/, "~"),
      }, url);
    default:
      throw unsupported(url, `${scheme}:// is not supported`);
  }
}

function decoded(text: string, url: string): string {
  const found = urlDecoded(text);
  if (found === null) throw unsupported(url, "what it escapes is no UTF-8");
  return found;
}

/** `user@host:path`, `[host]:path`, `[user@host:port]:path`, `user@[host:port]:path`; an IPv6 address in brackets. */
function parseScp(url: string): RemoteLocation {
  const match = /^(?:\[([^\]]+)\]|(?:([^@/]+)@)?(?:\[([^\]]+)\]|([^:/]+))):(.*)$/s.exec(url);
  if (!match) throw unsupported(url, "it is malformed");
  const inside = match[1] ?? match[3];
  const bracketed = inside === undefined
    ? null
    : /^(?:([^@]+)@)?([^:]+)(?::(\d+))?$/.exec(inside) ?? /^(?:([^@]+)@)?(.*:.*)$/.exec(inside);
  return checkedSsh({
    kind: "ssh",
    host: bracketed?.[2] ?? match[4]!,
    user: bracketed?.[1] ?? match[2] ?? null,
    port: bracketed?.[3] ? Number(bracketed[3]) : null,
    path: match[5]!,
  }, url);
}

/** A host or user that begins with a dash would be read as an option by ssh. */
function checkedSsh(
  location: Extract<RemoteLocation, { kind: "ssh" }>,
  url: string,
): RemoteLocation {
  if (location.host === "" || location.host.startsWith("-") || location.user?.startsWith("-")) {
    throw unsupported(url, "its host is malformed");
  }
  if (location.path === "" || location.path.startsWith("-")) {
    throw unsupported(url, "its path is malformed");
  }
  return location;
}

/** A path that begins with a tilde lies in somebody's home directory, and nowhere else. */
function atHome(path: string, env: Readonly<Record<string, string | undefined>>): string {
  const [tilde, user] = /^~([^/]*)/.exec(path) ?? [];
  if (tilde === undefined) return path;
  const home = user === "" ? env.HOME : homeOfUser(user!);
  if (home) return home + path.slice(tilde.length);
  throw unsupported(
    path,
    user === "" ? "HOME is not set" : `there is no user ${JSON.stringify(user)} on this machine`,
  );
}

function filePath(url: string): string {
  try {
    return nodeUrl().fileURLToPath(url.replace(/^file:\/\/localhost\//i, "file:///"));
  } catch {
    // Git takes everything behind file:// as it stands, percent signs and all.
    const path = url.slice("file://".length);
    if (isAbsolute(path)) return path;
    throw unsupported(url, "a file url needs an absolute path");
  }
}

function unsupported(url: string, why: string): AgentqError {
  return new AgentqError("url-unsupported", `Can't use ${redactUrl(url)} as an origin: ${why}.`);
}

/**
 * A url without user name, password, query and fragment: each may hold a secret. So may what is no url, for a slip
 * or a character that should have been escaped: there all from a colon to an at sign goes.
 */
export function redactUrl(url: string): string {
  const match = /^([A-Za-z][A-Za-z0-9+.-]*:\/\/)([^/?#]*)([^?#]*)(.*)$/s.exec(url);
  // `host:path@more` is an address like any other, and so is a path.
  if (!match) return /\/\/|:\/|@[^/]*:/.test(url) ? url.replace(/:(?![:/\\])[^@]*@/s, ":…@") : url;
  const [, scheme, authority, path, rest] = match;
  // What stands where a port would and is none: a password, cut off by a sign that ends it.
  const [host, cut] = [authority!.replace(/:(?!\d*$)[^\]@]*$/s, ""), url.lastIndexOf("@")];
  if (host !== authority && !authority!.includes("@")) {
    return cut < 0 ? `${scheme}${host}:…` : `${scheme}…@${redactUrl(url.slice(cut + 1))}`;
  }
  const at = authority!.lastIndexOf("@");
  const ssh = /ssh/i.test(scheme!);
  // The user name of an ssh url is an address, not a secret.
  const user = at < 0 ? "" : ssh ? authority!.slice(0, at).replace(/:.*$/s, "") + "@" : "";
  const secret = rest === "" ? "" : "?…";
  return scheme + user + authority!.slice(at + 1) + path + secret;
}
