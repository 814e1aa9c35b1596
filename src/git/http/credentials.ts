/**
 * Who we are to a web server. Known from the start: user and password in the url, AGENTQ_TOKEN,
 * http.extraHeader. Only when the server asks, in git's order: ~/.netrc, the credential helpers,
 * ~/.git-credentials, GIT_ASKPASS. Never asked for on a terminal; never part of an error, a log or a
 * process's arguments.
 *
 *   get ▶ helper 1 ▶ helper 2 … ▶ askpass ──▶ 200: every helper is told to store what was found
 *                                       └──▶ 401: every helper is told to erase it, the search goes on
 */
import { Buffer } from "node:buffer";
import { accessSync, constants } from "node:fs";
import { delimiter, isAbsolute, join } from "node:path";
import { spawnPiped } from "../../platform/spawn-piped.ts";
import { parseBoolean } from "../config-file.ts";
import type { GitConfig } from "../config.ts";
import { type CredentialPlace, forget, keep, lookUp, storeFiles } from "./credential-store.ts";
import { netrcCredential } from "./netrc.ts";
import { urlDecoded } from "../url-decode.ts";
import { credentialMatches } from "./url-match.ts";

type Env = Readonly<Record<string, string | undefined>>;

export interface Credential {
  readonly username: string;
  readonly password: string;
}

/** A credential from where git keeps them. */
export interface StoredCredential extends Credential {
  /** True where the helpers are to be told what became of it: it came from one, or was asked for. */
  readonly helped: boolean;
  /** What a helper said besides, for the others. */
  readonly more?: ReadonlyMap<string, string>;
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
): AsyncGenerator<StoredCredential, void, undefined> {
  const { config, env } = context;
  const netrc = netrcCredential(url.hostname, decode(url.username), env);
  if (netrc) yield { ...netrc, helped: false };
  let place: CredentialPlace | null = placeOf(url, config);
  if (place !== null) {
    const helpers = helpersFor(url, config);
    for (const helper of helpers) {
      const found = await askHelper(helper, place, context);
      if (found === null) continue;
      const username: string = found.get("username") ?? place.username ?? "";
      const password = found.get("password");
      if (password !== undefined && !expired(found)) {
        yield { username, password, helped: true, more: found };
      } else if (username !== "") place = { ...place, username };
      // With a url git forgets which helpers it was to ask.
      if (found.has("url")) break;
      // A helper's last word.
      if (/^(1|true)$/.test(found.get("quit") ?? "")) return;
    }
    // Where nobody configured the helper `store`, its files say the same.
    const unused = !helpers.some(isStore);
    const kept = unused ? lookUp(storeFiles("store", env), place) : null;
    if (kept) yield { ...kept, helped: false };
  }
  const asked = await fromAskpass(url, place, context);
  if (asked) yield { ...asked, helped: true };
}

/** Tells every helper, as git does, that a server took a credential (`store`) or didn't (`erase`). */
export async function tellHelpers(
  action: "store" | "erase",
  url: URL,
  credential: StoredCredential,
  context: CredentialContext,
): Promise<void> {
  const { config, env } = context;
  const place = placeOf(url, config);
  if (place === null) return;
  for (const helper of helpersFor(url, config)) {
    if (isStore(helper)) {
      const files = storeFiles(helper, env);
      if (action === "store") keep(files, place, credential);
      else forget(files, place, credential);
      continue;
    }
    const command = helperCommand(helper, env);
    if (command === null) continue;
    const fields: Record<string, string> = { ...place };
    for (const key of ["password_expiry_utc", "oauth_refresh_token"]) {
      const value = credential.more?.get(key);
      if (value !== undefined) fields[key] = value;
    }
    const { username, password } = credential;
    const input = question({ ...fields, username, password });
    if (input !== null) await run("sh", ["-c", `${command} ${action}`], input, context);
  }
}

const isStore = (helper: string) => /^store(\s|$)/.test(helper);

function expired(found: ReadonlyMap<string, string>): boolean {
  const at = Number(found.get("password_expiry_utc") ?? Infinity);
  return at * 1000 <= Date.now();
}

const decode = (text: string): string => urlDecoded(text) ?? text;

/** `credential.<key>` and `credential.<url>.<key>` that fit, in the order they are read. */
function settings(url: URL, config: GitConfig, key: string): string[] {
  const found: string[] = [];
  for (const { key: name, value } of config.entries()) {
    if (!name.startsWith("credential.") || !name.endsWith(`.${key}`)) continue;
    const pattern = name.slice("credential.".length, -key.length - 1);
    if (pattern === "" || credentialMatches(pattern, url)) found.push(value ?? "true");
  }
  return found;
}

/** The helpers to ask; an empty value forgets those before it. */
function helpersFor(url: URL, config: GitConfig): string[] {
  const helpers = settings(url, config, "helper");
  return helpers.slice(helpers.lastIndexOf("") + 1);
}

/** What git asks helpers for. Null when the url can't be put into their line format. */
function placeOf(url: URL, config: GitConfig): CredentialPlace | null {
  const withPath = parseBoolean(settings(url, config, "usehttppath").at(-1) ?? "false") === true;
  const path = decode(url.pathname).slice(1);
  const username = decode(url.username) || settings(url, config, "username").at(-1);
  const place: CredentialPlace = {
    protocol: url.protocol.slice(0, -1),
    host: url.host,
    ...(withPath && path !== "" ? { path } : {}),
    ...(username ? { username } : {}),
  };
  return question({ ...place }) === null ? null : place;
}

/** Lines of a question; null when a line break would smuggle in another host's field. */
function question(fields: Readonly<Record<string, string>>): string | null {
  if (Object.values(fields).some((value) => /[\r\n\0]/.test(value))) return null;
  return Object.entries(fields).map(([key, value]) => `${key}=${value}\n`).join("");
}

/** The shell command of a helper; null for a name that no program has. */
function helperCommand(helper: string, env: Env): string | null {
  if (helper.startsWith("!")) return helper.slice(1);
  if (isAbsolute(helper)) return helper;
  const [name, ...rest] = helper.split(/\s+/);
  const program = findProgram(`git-credential-${name}`, env);
  return program === null ? null : [shellQuote(program), ...rest].join(" ");
}

async function askHelper(
  helper: string,
  place: CredentialPlace,
  context: CredentialContext,
): Promise<ReadonlyMap<string, string> | null> {
  if (isStore(helper)) {
    const found = lookUp(storeFiles(helper, context.env), place);
    return found && new Map(Object.entries(found));
  }
  const command = helperCommand(helper, context.env);
  if (command === null) return null;
  const output = await run("sh", ["-c", `${command} get`], question({ ...place })!, context);
  return output === null ? null : answerOf(output);
}

/** A helper's lines; `url=` stands for the fields that it consists of, in place of those before it. */
function answerOf(output: string): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const line of output.split("\n")) {
    const equals = line.indexOf("=");
    if (equals < 0) continue;
    const value = line.slice(equals + 1).replace(/\r$/, "");
    found.set(line.slice(0, equals), value);
    const login = line.startsWith("url=") ? /^[^:/]+:\/\/([^/@]*)@/.exec(value)?.[1] : undefined;
    if (login === undefined) continue;
    const colon = login.indexOf(":");
    found.delete("password");
    found.set("username", decode(colon < 0 ? login : login.slice(0, colon)));
    if (colon >= 0) found.set("password", decode(login.slice(colon + 1)));
  }
  return found;
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
async function fromAskpass(
  url: URL,
  place: CredentialPlace | null,
  context: CredentialContext,
): Promise<Credential | null> {
  const { config, env } = context;
  const program = env.GIT_ASKPASS || config.getPath("core.askPass") || env.SSH_ASKPASS;
  if (!program) return null;
  const path = place?.path === undefined ? "" : `/${place.path}`;
  const ask = async (prompt: string) =>
    (await run(program, [prompt], "", context))?.replace(/\r?\n[\s\S]*$/, "") ?? null;
  const username = place?.username || decode(url.username) ||
    await ask(`Username for '${url.protocol}//${url.host}${path}': `);
  if (!username) return null;
  const user = encodeURIComponent(username);
  const password = await ask(`Password for '${url.protocol}//${user}@${url.host}${path}': `);
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
    let piped;
    try {
      piped = spawnPiped(program, args, { env, input, stderr: false });
    } catch {
      return resolve(null);
    }
    const { child, outputs: [stdout], closed } = piped;
    let status: number | null = null;
    const chunks: Buffer[] = [];
    let size = 0;
    const kill = () => child.kill("SIGKILL");
    signal?.addEventListener("abort", kill, { once: true });
    const settle = (value: string | null) => {
      signal?.removeEventListener("abort", kill);
      resolve(value);
    };
    child.on("error", () => settle(null));
    child.on("exit", (code) => status = code);
    stdout!.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size < 65536) chunks.push(chunk);
    });
    closed.then(() => settle(status === 0 ? Buffer.concat(chunks).toString("utf8") : null));
  });
}
