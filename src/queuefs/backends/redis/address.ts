/**
 * Where a Redis is: `redis://` or `rediss://` (TLS), one or several hosts, and what kind of deployment.
 *
 * ```
 * redis://[USER[:PASSWORD]@]HOST[:PORT][,HOST[:PORT]…][/DB][?OPTION=VALUE&…]
 *   prefix=default        the namespace, as OpenViking's key_prefix
 *   cluster=1             the hosts are nodes of a cluster
 *   sentinel=mymaster     the hosts are sentinels that watch this master
 *   timeout=5000          milliseconds for connecting and for each call
 *   ca=FILE cert=FILE key=FILE servername=NAME      for rediss://
 * ```
 *
 * Passwords had better come from AGENTQ_REDIS_USERNAME, AGENTQ_REDIS_PASSWORD and
 * AGENTQ_REDIS_SENTINEL_PASSWORD: a command line can be read by others.
 */
import { readFileSync } from "node:fs";
import * as z from "zod/mini";
import { AgentqError } from "../../../errors.ts";
import { ioError } from "../../../platform/durable.ts";
import {
  checkAuthorities,
  checkClientCertificate,
  hasPrivateKey,
  type TlsFile,
} from "../../../platform/tls-files.ts";

export interface RedisAddress {
  readonly hosts: readonly { readonly host: string; readonly port: number }[];
  readonly mode: "single" | "cluster" | "sentinel";
  readonly master: string | null;
  readonly username: string | null;
  readonly password: string | null;
  readonly sentinelPassword: string | null;
  readonly db: number;
  readonly prefix: string;
  readonly timeoutMs: number;
  readonly tls: { ca?: string; cert?: string; key?: string; servername?: string } | null;
  /** Without secrets. */
  readonly label: string;
}

const optionsSchema = z.strictObject({
  prefix: z._default(z.string().check(z.regex(/^[^{}\s]{1,200}$/)), "default"),
  cluster: z._default(z.enum(["0", "1"]), "0"),
  sentinel: z.optional(z.string().check(z.regex(/^[A-Za-z0-9._-]{1,200}$/))),
  timeout: z._default(z.string().check(z.regex(/^[1-9][0-9]{1,6}$/)), "5000"),
  ca: z.optional(z.string()),
  cert: z.optional(z.string()),
  key: z.optional(z.string()),
  servername: z.optional(z.string()),
});

/** What each option may be, in words. */
const ALLOWED: Record<keyof typeof optionsSchema.shape, string> = {
  prefix: "1 to 200 characters without { } and white space",
  cluster: "0 or 1",
  sentinel: "the name of a master: 1 to 200 characters of A-Z a-z 0-9 . _ -",
  timeout: "milliseconds from 10 to 9999999, without leading zeros",
  ca: "a file",
  cert: "a file",
  key: "a file",
  servername: "a host name",
};

/** Reads a URL. Throws `usage` and `config-invalid`, without repeating a password. */
export function parseRedisUrl(
  url: string,
  env: Readonly<Record<string, string | undefined>>,
): RedisAddress {
  const match = /^(rediss?):\/\/(?:([^@/?]*)@)?([^@/?#]+)(?:\/(\d{0,4}))?(?:\?([^#]*))?$/.exec(url);
  if (match === null) throw bad("it is not redis://HOST[:PORT][/DB][?OPTIONS]");
  const [, scheme, user, hostList, db, query] = match;
  requireText(query ?? "");
  const parsed = optionsSchema.safeParse(Object.fromEntries(new URLSearchParams(query ?? "")));
  if (!parsed.success) {
    // An unknown name isn't repeated: it may be the rest of a password with a ? in it.
    const name = String(parsed.error.issues[0]?.path[0]);
    const allowed = ALLOWED[name as keyof typeof ALLOWED];
    throw bad(
      allowed === undefined
        ? `an option is unknown: there are ${Object.keys(ALLOWED).join(", ")}`
        : `${name} must be ${allowed}`,
    );
  }
  const options = parsed.data;
  const hosts = hostList!.split(",").map(parseHost);
  const mode = options.sentinel ? "sentinel" : options.cluster === "1" ? "cluster" : "single";
  if (options.sentinel && options.cluster === "1") {
    throw bad("cluster and sentinel exclude each other");
  }
  if (mode === "single" && hosts.length > 1) {
    throw bad("several hosts need cluster=1 or sentinel=MASTER");
  }
  if (mode === "cluster" && Number(db ?? 0) !== 0) throw bad("a cluster has only database 0");
  const forTls = TLS_OPTIONS.filter((name) => options[name] !== undefined);
  if (scheme === "redis" && forTls.length > 0) {
    throw new AgentqError(
      "config-invalid",
      `the Redis URL asks for no TLS but has ${forTls.join(", ")}, which are for TLS`,
      { hint: "Use rediss:// for a server with TLS, or leave them out." },
    );
  }
  const colon = user?.indexOf(":") ?? -1;
  const username = colon < 0 ? user : user!.slice(0, colon);
  const password = colon < 0 ? undefined : user!.slice(colon + 1);
  return {
    hosts,
    mode,
    master: options.sentinel ?? null,
    username: decode(username) || env.AGENTQ_REDIS_USERNAME || null,
    password: decode(password) || env.AGENTQ_REDIS_PASSWORD || null,
    sentinelPassword: env.AGENTQ_REDIS_SENTINEL_PASSWORD || null,
    db: Number(db || 0),
    prefix: options.prefix,
    timeoutMs: Number(options.timeout),
    tls: scheme === "rediss" ? readTls(options) : null,
    label: `${scheme}://${hostList}${db ? `/${db}` : ""}?prefix=${options.prefix}`,
  };
}

function parseHost(text: string): { host: string; port: number } {
  const match = /^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?$/.exec(text);
  const port = Number(match?.[2] ?? 6379);
  if (match === null || port < 1 || port > 65535) throw bad("a host is not HOST or HOST:PORT");
  return { host: match[1]!.replace(/^\[|\]$/g, ""), port };
}

const TLS_OPTIONS = ["ca", "cert", "key", "servername"] as const;

function readTls(options: z.infer<typeof optionsSchema>): NonNullable<RedisAddress["tls"]> {
  const { servername } = options;
  const ca = tlsFile("ca", options.ca);
  const cert = tlsFile("cert", options.cert);
  // Both may be in one file.
  const key = tlsFile("key", options.key) ?? cert;
  if (ca !== null) checkAuthorities(ca);
  if (cert !== null && key !== null) {
    if (options.key === undefined && !hasPrivateKey(cert.data)) {
      throw withoutOther(
        `cert names ${cert.path}, which holds no private key, and there is no key`,
      );
    }
    checkClientCertificate(cert, key);
  } else if (key !== null) throw withoutOther("there is a key without cert, its certificate");
  const text = (file: TlsFile) => file.data.toString("utf8");
  return {
    ...(ca === null ? {} : { ca: text(ca) }),
    ...(cert === null || key === null ? {} : { cert: text(cert), key: text(key) }),
    ...(servername === undefined ? {} : { servername }),
  };
}

function tlsFile(name: string, path: string | undefined): TlsFile | null {
  if (path === undefined) return null;
  const setting = `the Redis URL's ${name}`;
  try {
    return { setting, path, data: readFileSync(path) };
  } catch (cause) {
    const { message, details, retryable } = ioError("read", path, cause);
    if (retryable) throw ioError("read", path, cause); // Too many open files: nothing is wrong with this one.
    const why = message.slice(message.indexOf(path) + path.length + ": ".length);
    throw new AgentqError(
      "config-invalid",
      `${setting} names ${path}, which can't be read: ${why}`,
      { cause, hint: `Name a file in PEM that this user may read by ${name}=FILE.`, details },
    );
  }
}

function withoutOther(problem: string): AgentqError {
  return new AgentqError("config-invalid", `the Redis URL can't be used: ${problem}`, {
    hint: "Name both: cert=FILE&key=FILE, or one file with both by cert.",
  });
}

/** Bytes that are no UTF-8 would be read as U+FFFD, and one namespace taken for another. */
function requireText(query: string): void {
  try {
    for (const [escaped] of query.matchAll(/(?:%[0-9A-Fa-f]{2})+/g)) decodeURIComponent(escaped);
  } catch {
    throw new AgentqError("config-invalid", "the Redis URL has an option that is no UTF-8", {
      hint: "Percent-encode the UTF-8 of its value.",
    });
  }
}

function decode(text: string | undefined): string {
  try {
    return decodeURIComponent(text ?? "");
  } catch {
    throw bad("user and password must be percent-encoded");
  }
}

function bad(problem: string): AgentqError {
  return new AgentqError("usage", `the Redis URL can't be used: ${problem}`, {
    hint: "See docs/queues.md for the options of redis:// URLs.",
  });
}
