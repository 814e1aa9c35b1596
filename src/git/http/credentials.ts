/**
 * Who we are to a web server. Known from the start: user and password in the url, AGENTQ_TOKEN,
 * http.extraHeader. Only when the server asks, in git's order: ~/.netrc, the credential helpers,
 * GIT_ASKPASS. Never asked for on a terminal; never part of an error, a log or a process's arguments.
 */
import { Buffer } from "node:buffer";
import { accessSync, constants, readFileSync } from "node:fs";
import { delimiter, isAbsolute, join } from "node:path";
import { nodeChildProcess } from "../../platform/builtins.ts";
import { expandHome, type GitConfig } from "../config.ts";

type Env = Readonly<Record<string, string | undefined>>;

export interface Credential {
  readonly username: string;
  readonly password: string;
}

export interface CredentialContext {
  readonly config: GitConfig;
  readonly env: Env;
  readonly signal?: AbortSignal;
}

/** The value of the Authorization header. */
export function basic({ username, password }: Credential): string {
  return `Basic ${Buffer.from(`${username}:${password}`, "utf8").toString("base64")}`;
}

/**
 * What is known without being asked. A token alone goes with the user name that the big hosts document
 * for tokens, or with the one in the url.
 */
export function givenCredential(url: URL, env: Env): Credential | null {
  const username = decode(url.username);
  const password = decode(url.password);
  if (password !== "") return { username, password };
  const token = env.AGENTQ_TOKEN;
  if (token) return { username: username || "x-access-token", password: token };
  return null;
}

/** Credentials from where git keeps them, one after the other as long as the server says no. */
export async function* storedCredentials(
  url: URL,
  context: CredentialContext,
): AsyncGenerator<Credential, void, undefined> {
  const netrc = fromNetrc(url, context.env);
  if (netrc) yield netrc;
  for (const helper of helpersFor(url, context.config)) {
    const found = await askHelper(helper, url, context);
    if (found) yield found;
  }
  const asked = await fromAskpass(url, context);
  if (asked) yield asked;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function read(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return null;
  }
}

function fromNetrc(url: URL, env: Env): Credential | null {
  const path = env.NETRC ?? (env.HOME ? join(env.HOME, ".netrc") : null);
  const text = path === null ? null : read(path);
  return text === null ? null : parseNetrc(text, url.hostname, decode(url.username));
}

/** The entry for a host in the format of ~/.netrc; `user` narrows it when not empty. */
export function parseNetrc(text: string, host: string, user: string): Credential | null {
  // Macros run to the next empty line and hold no entries.
  const plain = text.replace(/^macdef\b[\s\S]*?(\n\s*\n|$)/gm, "").replace(/^\s*#.*$/gm, "");
  const words = plain.match(/"(?:[^"\\]|\\.)*"|\S+/g) ?? [];
  const unquote = (word = "") =>
    word.startsWith('"') ? word.slice(1, -1).replace(/\\(.)/g, "$1") : word;
  let fits = false;
  let login = "";
  let password: string | null = null;
  const result = () =>
    fits && password !== null && (user === "" || login === user)
      ? { username: login, password }
      : null;
  for (let i = 0; i < words.length; i++) {
    switch (words[i]) {
      case "machine":
      case "default": {
        const found = result();
        if (found) return found;
        fits = words[i] === "default" || unquote(words[++i]).toLowerCase() === host.toLowerCase();
        login = "";
        password = null;
        break;
      }
      case "login":
        login = unquote(words[++i]);
        break;
      case "password":
        password = unquote(words[++i]);
        break;
      case "account":
        i++;
    }
  }
  return result();
}

/** `credential.helper` and `credential.<url>.helper`; an empty value forgets those before it. */
function helpersFor(url: URL, config: GitConfig): string[] {
  let helpers: string[] = [];
  for (const { key, value } of config.entries()) {
    if (!key.startsWith("credential.") || !key.endsWith(".helper")) continue;
    const pattern = key === "credential.helper"
      ? ""
      : key.slice("credential.".length, -".helper".length);
    if (pattern !== "" && !matches(pattern, url)) continue;
    if (value === null || value === "") helpers = [];
    else helpers.push(value);
  }
  return helpers;
}

function matches(pattern: string, url: URL): boolean {
  let wanted: URL;
  try {
    wanted = new URL(pattern);
  } catch {
    return false;
  }
  if (wanted.protocol !== url.protocol || wanted.host !== url.host) return false;
  if (wanted.username !== "" && wanted.username !== url.username) return false;
  const path = wanted.pathname.replace(/\/+$/, "");
  return path === "" || url.pathname === path || url.pathname.startsWith(`${path}/`);
}

/** The question that git puts to a helper. Null when the url can't be put into its line format. */
function question(url: URL, config: GitConfig): string | null {
  const fields: Record<string, string> = { protocol: url.protocol.slice(0, -1), host: url.host };
  if (config.getBoolean("credential.useHttpPath")) fields.path = decode(url.pathname).slice(1);
  const username = decode(url.username) || config.get("credential.username");
  if (username) fields.username = username;
  // A line break would smuggle in another field, and so ask for another host's credential.
  if (Object.values(fields).some((value) => /[\r\n\0]/.test(value))) return null;
  return Object.entries(fields).map(([key, value]) => `${key}=${value}\n`).join("");
}

async function askHelper(
  helper: string,
  url: URL,
  context: CredentialContext,
): Promise<Credential | null> {
  const { config, env } = context;
  if (/^store(\s|$)/.test(helper)) return fromStore(helper, url, env);
  const input = question(url, config);
  if (input === null) return null;
  let command: string;
  if (helper.startsWith("!")) command = helper.slice(1);
  else if (isAbsolute(helper)) command = helper;
  else {
    const [name, ...rest] = helper.split(/\s+/);
    const program = findProgram(`git-credential-${name}`, env);
    if (program === null) return null;
    command = [shellQuote(program), ...rest].join(" ");
  }
  const output = await run("sh", ["-c", `${command} get`], input, context);
  if (output === null) return null;
  const fields = new Map(
    output.split("\n").filter((line) => line.includes("=")).map((line) => {
      const equals = line.indexOf("=");
      return [line.slice(0, equals), line.slice(equals + 1).replace(/\r$/, "")];
    }),
  );
  const password = fields.get("password");
  if (password === undefined) return null;
  return { username: fields.get("username") ?? decode(url.username), password };
}

/** What `git credential-store` keeps: one url a line. */
function fromStore(helper: string, url: URL, env: Env): Credential | null {
  const named = /--file[= ]\s*("[^"]*"|'[^']*'|\S+)/.exec(helper)?.[1]?.replace(
    /^["'](.*)["']$/,
    "$1",
  );
  const home = env.HOME ?? "";
  const xdg = env.XDG_CONFIG_HOME || join(home, ".config");
  const files = named
    ? [expandHome(named, env)]
    : [join(home, ".git-credentials"), join(xdg, "git", "credentials")];
  for (const file of files) {
    for (const line of (read(file) ?? "").split("\n")) {
      let stored: URL;
      try {
        stored = new URL(line.trim());
      } catch {
        continue;
      }
      if (stored.protocol !== url.protocol || stored.host !== url.host || stored.password === "") {
        continue;
      }
      if (url.username !== "" && stored.username !== url.username) continue;
      return { username: decode(stored.username), password: decode(stored.password) };
    }
  }
  return null;
}

/** Where git installs its own programs, beyond PATH. */
const EXEC_PATHS = ["/usr/lib/git-core", "/usr/libexec/git-core", "/usr/local/libexec/git-core"];

function findProgram(name: string, env: Env): string | null {
  const places = [...(env.PATH ?? "").split(delimiter), env.GIT_EXEC_PATH ?? "", ...EXEC_PATHS];
  for (const place of places) {
    if (place === "") continue;
    try {
      accessSync(join(place, name), constants.X_OK);
      return join(place, name);
    } catch {
      // Not here.
    }
  }
  return null;
}

const shellQuote = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

/** GIT_ASKPASS, core.askPass or SSH_ASKPASS: a program that is given the prompt and prints the answer. */
async function fromAskpass(url: URL, context: CredentialContext): Promise<Credential | null> {
  const { config, env } = context;
  const program = env.GIT_ASKPASS || config.getPath("core.askPass") || env.SSH_ASKPASS;
  if (!program) return null;
  const place = `${url.protocol}//${url.host}`;
  const ask = async (prompt: string) =>
    (await run(program, [prompt], "", context))?.replace(/\r?\n[\s\S]*$/, "") ?? null;
  const known = decode(url.username) || config.get("credential.username");
  const username = known || await ask(`Username for '${place}': `);
  if (!username) return null;
  const password = await ask(
    `Password for '${url.protocol}//${encodeURIComponent(username)}@${url.host}': `,
  );
  return password === null || password === "" ? null : { username, password };
}

/** Runs a program and returns what it printed; null when it failed. Its own complaints are dropped. */
function run(
  program: string,
  args: readonly string[],
  input: string,
  { env, signal }: CredentialContext,
): Promise<string | null> {
  return new Promise((resolve) => {
    const child = nodeChildProcess().spawn(program, [...args], {
      env: env as NodeJS.ProcessEnv,
      stdio: ["pipe", "pipe", "ignore"],
    });
    const chunks: Buffer[] = [];
    let size = 0;
    const kill = () => child.kill("SIGKILL");
    signal?.addEventListener("abort", kill, { once: true });
    const settle = (value: string | null) => {
      signal?.removeEventListener("abort", kill);
      resolve(value);
    };
    child.on("error", () => settle(null));
    child.stdin.on("error", () => {});
    child.stdout.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size < 65536) chunks.push(chunk);
    });
    child.on("close", (code) => settle(code === 0 ? Buffer.concat(chunks).toString("utf8") : null));
    child.stdin.end(input);
  });
}
