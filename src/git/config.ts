/**
 * Configuration by level, each file read when a question first reaches it.
 *
 *   command (GIT_CONFIG_COUNT, git -c)  →  worktree  →  local  →  global (~/.gitconfig, XDG)  →  system
 *
 * One value is looked for from the left and the search stops where it is found; all values of a key are
 * listed from the right, as git lists them, so that the last one wins.
 */
import { AgentqError } from "../errors.ts";
import type { Input } from "../platform/inputs.ts";
import { commandEntries } from "./config-command.ts";
import { type ConfigEntry, normalizeKey, parseBoolean, parseInteger } from "./config-file.ts";
import {
  type ConfigLevel,
  type ConfigSources,
  createLoader,
  expandHome,
  filesOf,
} from "./config-sources.ts";

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
