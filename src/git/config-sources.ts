/** Where configuration comes from: the files of each level, what they include, and the environment. */
import { Buffer } from "node:buffer";
import { readFileSync, realpathSync } from "node:fs";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { AgentqError } from "../errors.ts";
import { type ConfigEntry, parseBoolean, parseConfig } from "./config-file.ts";
import { compileWildmatch } from "./wildmatch.ts";

export type ConfigLevel = "system" | "global" | "local" | "worktree" | "command";

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

export type Env = Readonly<Record<string, string | undefined>>;

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
export function createLoader(
  sources: ConfigSources,
  env: Env,
  remoteUrls: () => readonly string[],
) {
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

/** The files of a level, least important first. */
export function filesOf(level: ConfigLevel, sources: ConfigSources, env: Env): string[] {
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
