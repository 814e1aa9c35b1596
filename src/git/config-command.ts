/** Configuration that a caller hands down in the environment. */
import { AgentqError } from "../errors.ts";
import { type ConfigEntry, normalizeKey, parseInteger } from "./config-file.ts";
import type { Env } from "./config-sources.ts";

/** What `git -c` and GIT_CONFIG_COUNT hand down in the environment. */
export function commandEntries(env: Env): ConfigEntry[] {
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
