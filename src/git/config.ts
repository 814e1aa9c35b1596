/**
 * Configuration by level, each file read when a question first reaches it.
 *
 *   command (GIT_CONFIG_COUNT, git -c)  →  worktree  →  local  →  global (~/.gitconfig, XDG)  →  system
 *
 * One value is looked for from the left and the search stops where it is found; all values of a key are
 * listed from the right, as git lists them, so that the last one wins.
 */
import { Buffer } from "node:buffer";
import { readFileSync, realpathSync } from "node:fs";
import { dirname, isAbsolute, join, resolve } from "node:path";
import process from "node:process";
import { AgentqError } from "../errors.ts";
import type { Input } from "../platform/inputs.ts";
import {
  type ConfigEntry,
  normalizeKey,
  parseBoolean,
  parseConfig,
  parseInteger,
} from "./config-file.ts";
import { compileWildmatch } from "./wildmatch.ts";

export type ConfigLevel = "system" | "global" | "local" | "worktree" | "command";

export interface ConfigValue extends ConfigEntry {
  readonly level: ConfigLevel;
}

export interface GitConfig {
  /** The last value of `section.key` or `section.sub.key`; "" for a key without `=`; null when unset. */
  get(key: string): string | null;
  /** Every value, least important first. */
  getAll(key: string): string[];
  /** @throws `config-invalid` when the value is no boolean */
  getBoolean(key: string): boolean | null;
  /** Suffixes k, m, g are understood. @throws `config-invalid` when the value is no number */
  getInteger(key: string): number | null;
  /** A path with `~/` expanded. */
  getPath(key: string): string | null;
  /** The subsections of a section, in the order they first appear. */
  subsections(section: string): string[];
  entries(): readonly ConfigValue[];
  /** The files that all of this is read from; null where they include others. */
  inputs(): readonly Input[] | null;
}

export interface ConfigSources {
  /** The repository whose files are read; null outside of one. */
  readonly repository: {
    readonly gitDir: string;
    readonly commonDir: string;
    /** True when `extensions.worktreeConfig` is on. */
    readonly worktreeConfig: boolean;
    /** `refs/heads/x`, for `includeIf "onbranch:"`. */
    readonly branch: () => string | null;
    /** What `config` in the common directory holds, where that was just read. */
    readonly local?: readonly ConfigEntry[];
  } | null;
  readonly env?: Readonly<Record<string, string | undefined>>;
}

type Env = Readonly<Record<string, string | undefined>>;

const MAX_INCLUDES = 10;

/** Text of a file, or null when there is none that can be read. */
export function readConfigFile(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    const code = (cause as { code?: string }).code ?? "";
    if (["ENOENT", "ENOTDIR", "EACCES", "EPERM"].includes(code)) return null;
    throw new AgentqError("io-error", `Cannot read ${path} (${code || cause}).`, {
      cause,
      details: { path },
    });
  }
}

function homeOf(env: Env): string | null {
  return env.HOME ?? env.USERPROFILE ?? null;
}

/** `~/x` with the home directory put in; other paths as they are. */
export function expandHome(path: string, env: Env): string {
  if (path !== "~" && !path.startsWith("~/")) return path;
  const home = homeOf(env);
  return home === null ? path : join(home, path.slice(1));
}

const bytes = (text: string) => Buffer.from(text, "utf8").toString("latin1");

/** Reads files of one level, following `include` and `includeIf`. */
function createLoader(sources: ConfigSources, env: Env, remoteUrls: () => readonly string[]) {
  function matchesGitDir(pattern: string, file: string, ignoreCase: boolean): boolean {
    if (!sources.repository) return false;
    let glob = expandHome(pattern, env);
    let literal = "";
    if (glob.startsWith("./")) {
      literal = dirname(realOr(file)) + "/";
      glob = glob.slice(2);
    } else if (!isAbsolute(glob)) glob = "**/" + glob;
    if (glob.endsWith("/")) glob += "**";
    const matcher = compileWildmatch(bytes(glob), { ignoreCase });
    const fold = (text: string) => ignoreCase ? text.toLowerCase() : text;
    return [resolve(sources.repository.gitDir), realOr(sources.repository.gitDir)].some((dir) =>
      fold(dir).startsWith(fold(literal)) && matcher(bytes(dir.slice(literal.length)))
    );
  }

  function applies(condition: string, file: string): boolean {
    const colon = condition.indexOf(":");
    const pattern = condition.slice(colon + 1);
    switch (condition.slice(0, colon)) {
      case "gitdir":
        return matchesGitDir(pattern, file, false);
      case "gitdir/i":
        return matchesGitDir(pattern, file, true);
      case "onbranch": {
        const ref = sources.repository?.branch();
        if (!ref?.startsWith("refs/heads/")) return false;
        return compileWildmatch(bytes(pattern.endsWith("/") ? pattern + "**" : pattern))(
          bytes(ref.slice(11)),
        );
      }
      case "hasconfig": {
        if (!pattern.startsWith("remote.*.url:")) return false;
        const matcher = compileWildmatch(bytes(pattern.slice("remote.*.url:".length)));
        return remoteUrls().some((url) => matcher(bytes(url)));
      }
      default:
        return false;
    }
  }

  function expand(
    entries: readonly ConfigEntry[],
    file: string,
    depth: number,
    conditions: boolean,
  ): ConfigEntry[] {
    const result: ConfigEntry[] = [];
    for (const entry of entries) {
      result.push(entry);
      const { key, value } = entry;
      if (value === null || !/^include(if\..*)?\.path$/s.test(key)) continue;
      if (key !== "include.path") {
        const condition = key.slice("includeif.".length, -".path".length);
        if (condition.startsWith("hasconfig:") && !conditions) continue;
        if (!applies(condition, file)) continue;
      }
      if (depth >= MAX_INCLUDES) {
        throw new AgentqError(
          "config-invalid",
          `${file} includes itself, or too deeply: ${value}.`,
        );
      }
      const path = resolve(dirname(realOr(file)), expandHome(value, env));
      const text = readConfigFile(path);
      if (text !== null) {
        result.push(...expand(parseConfig(text, path), path, depth + 1, conditions));
      }
    }
    return result;
  }

  return (path: string, conditions = true): ConfigEntry[] => {
    const { commonDir, local } = sources.repository ?? {};
    if (local && path === join(commonDir!, "config")) return expand(local, path, 0, conditions);
    const text = readConfigFile(path);
    return text === null ? [] : expand(parseConfig(text, path), path, 0, conditions);
  };
}

function realOr(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return resolve(path);
  }
}

/** What `git -c` and GIT_CONFIG_COUNT hand down in the environment. */
function commandEntries(env: Env): ConfigEntry[] {
  const entries: ConfigEntry[] = [];
  const count = env.GIT_CONFIG_COUNT ? parseInteger(env.GIT_CONFIG_COUNT) : 0;
  if (count === undefined || count < 0 || count > 100_000) {
    throw new AgentqError("config-invalid", "GIT_CONFIG_COUNT is not a number of settings.");
  }
  for (let i = 0; i < count; i++) {
    const key = env[`GIT_CONFIG_KEY_${i}`];
    const value = env[`GIT_CONFIG_VALUE_${i}`];
    if (key === undefined || value === undefined) {
      throw new AgentqError(
        "config-invalid",
        `GIT_CONFIG_KEY_${i} or GIT_CONFIG_VALUE_${i} is missing.`,
      );
    }
    entries.push({ key: normalizeKey(key), value });
  }
  // 'key'='value' (or the older 'key=value'), shell-quoted, separated by spaces.
  const quoted = /'((?:[^']|'\\''|'\\!')*)'(?:=(?:'((?:[^']|'\\''|'\\!')*)')?)?/g;
  const plain = (text: string) => text.replace(/'\\(['!])'/g, "$1");
  for (const match of (env.GIT_CONFIG_PARAMETERS ?? "").matchAll(quoted)) {
    const first = plain(match[1]!);
    if (match[2] !== undefined) entries.push({ key: normalizeKey(first), value: plain(match[2]) });
    else {
      const equals = first.indexOf("=");
      entries.push(
        equals < 0
          ? { key: normalizeKey(first), value: null }
          : { key: normalizeKey(first.slice(0, equals)), value: first.slice(equals + 1) },
      );
    }
  }
  return entries;
}

/** The files of a level, least important first. */
function filesOf(level: ConfigLevel, sources: ConfigSources, env: Env): string[] {
  const home = homeOf(env);
  switch (level) {
    case "system":
      return parseBoolean(env.GIT_CONFIG_NOSYSTEM ?? "")
        ? []
        : [env.GIT_CONFIG_SYSTEM ?? "/etc/gitconfig"];
    case "global": {
      if (env.GIT_CONFIG_GLOBAL !== undefined) {
        return env.GIT_CONFIG_GLOBAL === "" ? [] : [env.GIT_CONFIG_GLOBAL];
      }
      const xdg = env.XDG_CONFIG_HOME || (home === null ? null : join(home, ".config"));
      return [
        ...(xdg === null ? [] : [join(xdg, "git", "config")]),
        ...(home === null ? [] : [join(home, ".gitconfig")]),
      ];
    }
    case "local":
      return sources.repository ? [join(sources.repository.commonDir, "config")] : [];
    case "worktree":
      return sources.repository?.worktreeConfig
        ? [join(sources.repository.gitDir, "config.worktree")]
        : [];
    case "command":
      return [];
  }
}

const LEVELS: readonly ConfigLevel[] = ["system", "global", "local", "worktree", "command"];
const NEAREST_FIRST = LEVELS.toReversed();

/** Configuration as git would see it from this repository, or from outside of any. */
export function openConfig(sources: ConfigSources): GitConfig {
  const env = sources.env ?? process.env;
  const levels = new Map<ConfigLevel, ConfigValue[]>();
  const lasts = new Map<ConfigLevel, Map<string, ConfigValue>>();
  let urls: string[] | null = null;

  /** Remote urls in files reached without asking about remote urls, as git restricts it. */
  function remoteUrls(): readonly string[] {
    if (urls === null) {
      urls = [];
      for (const level of LEVELS) {
        for (const file of filesOf(level, sources, env)) {
          for (const { key, value } of load(file, false)) {
            if (/^remote\..+\.url$/s.test(key) && value !== null) urls.push(value);
          }
        }
      }
    }
    return urls;
  }
  const load = createLoader(sources, env, remoteUrls);

  function level(name: ConfigLevel): ConfigValue[] {
    let values = levels.get(name);
    if (!values) {
      const entries = name === "command"
        ? commandEntries(env)
        : filesOf(name, sources, env).flatMap((file) => load(file));
      values = entries.map((entry) => ({ ...entry, level: name }));
      levels.set(name, values);
    }
    return values;
  }

  function last(key: string): ConfigValue | undefined {
    const wanted = normalizeKey(key);
    for (const name of NEAREST_FIRST) {
      let values = lasts.get(name);
      if (!values) {
        values = new Map(level(name).map((entry) => [entry.key, entry]));
        lasts.set(name, values);
      }
      const found = values.get(wanted);
      if (found) return found;
    }
    return undefined;
  }

  const invalid = (key: string, value: string | null, what: string) =>
    new AgentqError("config-invalid", `${key} is ${JSON.stringify(value)}, which is not ${what}.`, {
      details: { key },
    });

  return {
    get: (key) => {
      const found = last(key);
      return found ? found.value ?? "" : null;
    },
    getAll: (key) => {
      const wanted = normalizeKey(key);
      return LEVELS.flatMap(level).filter((entry) => entry.key === wanted).map((entry) =>
        entry.value ?? ""
      );
    },
    getBoolean: (key) => {
      const found = last(key);
      if (!found) return null;
      const value = parseBoolean(found.value);
      if (value === undefined) throw invalid(key, found.value, "a boolean");
      return value;
    },
    getInteger: (key) => {
      const found = last(key);
      if (!found) return null;
      const value = found.value === null ? undefined : parseInteger(found.value);
      if (value === undefined) throw invalid(key, found.value, "a number");
      return value;
    },
    getPath: (key) => {
      const found = last(key);
      return found?.value ? expandHome(found.value, env) : null;
    },
    subsections: (section) => {
      const prefix = section.toLowerCase() + ".";
      const names = new Set<string>();
      for (const { key } of LEVELS.flatMap(level)) {
        const end = key.lastIndexOf(".");
        if (key.startsWith(prefix) && end >= prefix.length) {
          names.add(key.slice(prefix.length, end));
        }
      }
      return [...names];
    },
    entries: () => LEVELS.flatMap(level),
    inputs: () =>
      LEVELS.flatMap(level).some(({ key }) => /^include(if\..*)?\.path$/s.test(key))
        ? null
        : LEVELS.flatMap((name) => filesOf(name, sources, env)).map((path) => ["text", path]),
  };
}

/** A url as `url.<base>.insteadOf` (and for pushing, first, `pushInsteadOf`) rewrites it. */
export function rewriteUrl(config: GitConfig, url: string, direction: "fetch" | "push"): string {
  const rewrite = (kind: string): string | null => {
    let best: { base: string; prefix: string } | null = null;
    for (const base of config.subsections("url")) {
      for (const prefix of config.getAll(`url.${base}.${kind}`)) {
        if (url.startsWith(prefix) && prefix.length > (best?.prefix.length ?? -1)) {
          best = { base, prefix };
        }
      }
    }
    return best && best.base + url.slice(best.prefix.length);
  };
  return (direction === "push" ? rewrite("pushInsteadOf") : null) ?? rewrite("insteadOf") ?? url;
}

/**
 * What `core.sharedRepository` adds to the permission bits of new files: 0o660 for group, 0o664 for
 * all, an explicit octal value as it is, 0 for umask.
 */
export function sharedRepositoryMode(config: GitConfig): number {
  const value = config.get("core.sharedRepository");
  if (value === null) return 0;
  if (value === "umask") return 0;
  if (value === "group") return 0o660;
  if (["all", "world", "everybody"].includes(value)) return 0o664;
  if (/^[0-7]+$/.test(value)) {
    const mode = parseInt(value, 8);
    if (mode === 0) return 0;
    if (mode === 1) return 0o660;
    if (mode === 2) return 0o664;
    if ((mode & 0o600) === 0o600) return mode & 0o666;
  } else {
    const boolean = parseBoolean(value);
    if (boolean !== undefined) return boolean ? 0o660 : 0;
  }
  throw new AgentqError("config-invalid", `core.sharedRepository is ${JSON.stringify(value)}.`);
}
