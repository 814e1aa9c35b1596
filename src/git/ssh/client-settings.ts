/** What the embedded client does for a host, from ssh's configuration; what it can't do is refused by name. */
import { hostname as machineName } from "node:os";
import { join } from "node:path";
import { AgentqError } from "../../errors.ts";
import { hostName, type SshWords, sshWords } from "./client-config.ts";
import type { SshTarget } from "./command.ts";

type Env = Readonly<Record<string, string | undefined>>;

export interface SshSettings {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  /** Private keys to try, in this order; null: the usual ones. */
  readonly identityFiles: readonly string[] | null;
  /** Keys of the agent count only where they are one of these. */
  readonly identitiesOnly: boolean;
  /** The agent's socket; null: none is asked. */
  readonly agent: string | null;
  /** The name that host keys are known by. */
  readonly knownAs: string;
  /** The name that counts where none is known by that one: the host without its port; null: none. */
  readonly alsoKnownAs: string | null;
  readonly knownHosts: readonly string[];
  /** Milliseconds. */
  readonly connectMs: number;
}

/** Words that lead elsewhere, or mean another trust, and that only the ssh program can follow. */
const REFUSED = [
  "proxyjump",
  "proxycommand",
  "proxyusefdpass",
  "canonicalizehostname",
  "revokedhostkeys",
  "knownhostscommand",
];

/** @throws `config-invalid` naming the word that can't be honoured */
export function sshSettings(
  target: SshTarget,
  options: { env: Env; home: string; localUser: string; connectMs: number; files?: string[] },
): SshSettings {
  const { env, home, localUser } = options;
  const files = options.files ?? [join(home, ".ssh", "config"), "/etc/ssh/ssh_config"];
  const words = sshWords(files, { ...target, localUser });
  const one = (word: string) => words.get(word)?.[0] ?? null;
  for (const word of REFUSED) {
    const value = one(word);
    if (value === null || /^(none|no|false)$/i.test(value)) continue;
    throw new AgentqError(
      "config-invalid",
      `ssh's configuration has ${word} for ${target.host}, which needs the ssh program.`,
      { hint: "Install ssh (openssh-client), or reach the host without it." },
    );
  }
  const host = hostName(words, target.host);
  const port = Number(one("port") ?? 22);
  if (!Number.isInteger(port) || port < 1 || port > 65535) {
    throw new AgentqError(
      "config-invalid",
      `ssh's configuration has no port in Port ${one("port")}.`,
    );
  }
  const user = one("user") ?? localUser;
  const alias = one("hostkeyalias");
  const name = host.toLowerCase();
  const path = (text: string) =>
    expand(text, { env, home, host, original: target.host, port, user, localUser, alias });
  const identities = words.get("identityfile");
  const seconds = Number(one("connecttimeout") ?? 0);
  return {
    host,
    port,
    user,
    identityFiles: identities?.filter((file) => file.toLowerCase() !== "none").map(path) ?? null,
    identitiesOnly: /^(yes|true)$/i.test(one("identitiesonly") ?? ""),
    agent: agentSocket(one("identityagent"), env, path),
    // An alias stands for the server whatever its port.
    knownAs: alias?.toLowerCase() ?? (port === 22 ? name : `[${name}]:${port}`),
    alsoKnownAs: alias === null && port !== 22 ? name : null,
    knownHosts: [
      ...filesOf(
        words,
        "userknownhostsfile",
        ["known_hosts", "known_hosts2"].map((file) => join(home, ".ssh", file)),
        path,
      ),
      ...filesOf(words, "globalknownhostsfile", [
        "/etc/ssh/ssh_known_hosts",
        "/etc/ssh/ssh_known_hosts2",
      ], path),
    ],
    connectMs: seconds > 0 ? Math.min(seconds * 1000, options.connectMs) : options.connectMs,
  };
}

function filesOf(
  words: SshWords,
  word: string,
  usual: readonly string[],
  path: (text: string) => string,
): string[] {
  const named = words.get(word);
  if (named === undefined) return [...usual];
  return named.filter((file) => file.toLowerCase() !== "none").map(path);
}

function agentSocket(
  setting: string | null,
  env: Env,
  path: (text: string) => string,
): string | null {
  if (setting === null || setting === "SSH_AUTH_SOCK") return env.SSH_AUTH_SOCK || null;
  if (setting.toLowerCase() === "none") return null;
  const variable = /^\$([A-Za-z_][A-Za-z0-9_]*)$/.exec(setting)?.[1];
  return variable === undefined ? path(setting) : env[variable] || null;
}

interface Facts {
  readonly env: Env;
  readonly home: string;
  readonly host: string;
  readonly original: string;
  readonly port: number;
  readonly user: string;
  readonly localUser: string;
  readonly alias: string | null;
}

/** `~/`, `${VARIABLE}` and the tokens of ssh_config(5). */
function expand(text: string, facts: Facts): string {
  const tokens: Record<string, string> = {
    "%": "%",
    d: facts.home,
    h: facts.host,
    i: String(process.getuid?.() ?? ""),
    k: facts.alias ?? facts.original,
    L: machineName().replace(/\..*$/s, ""),
    l: machineName(),
    n: facts.original,
    p: String(facts.port),
    r: facts.user,
    u: facts.localUser,
  };
  const unknown = (what: string) =>
    new AgentqError(
      "config-invalid",
      `ssh's configuration has ${what} in ${text}, which only ssh knows.`,
    );
  const path = text.startsWith("~/") ? join(facts.home, text.slice(2)) : text;
  return path
    .replace(/\$\{([^}]*)\}/g, (whole, name: string) => {
      const value = facts.env[name];
      if (value === undefined) throw unknown(whole);
      return value;
    })
    .replace(/%(.?)/gs, (whole, token: string) => {
      const value = tokens[token];
      if (value === undefined) throw unknown(whole);
      return value;
    });
}
