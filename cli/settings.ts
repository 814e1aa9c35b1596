/**
 * Settings: a flag beats its environment variable, which beats git config, which beats the default.
 * Text becomes a value here, validated by the flag's kind, with an error that names where it came from.
 */
import { AgentqError } from "../src/errors.ts";
import type { Flags, FlagSpec } from "./spec.ts";

/** `verify-cmd` → `AGENTQ_VERIFY_CMD`. */
export function environmentName(flag: string): string {
  return `AGENTQ_${flag.toUpperCase().replaceAll("-", "_")}`;
}

const BOOLEAN_WORDS: Readonly<Record<string, boolean>> = {
  "true": true,
  "yes": true,
  "on": true,
  "1": true,
  "false": false,
  "no": false,
  "off": false,
  "0": false,
  "": false,
};

/** True for a boolean setting that is set and on, wherever it comes from. */
export function saysYes(given: string | undefined): boolean {
  return given !== undefined && BOOLEAN_WORDS[given.toLowerCase()] === true;
}

/** What is wrong with a value of each kind; null: nothing. Plain tests, since every run makes them. */
const problem = {
  text: (given: string) => given.includes("\0") ? "holds a NUL" : null,
  seconds: (given: string) =>
    /^\d{1,15}(\.\d{1,9})?$/.test(given) ? null : "is not a number of seconds",
  integer: (given: string) => /^\d{1,15}$/.test(given) ? null : "is not a whole number",
};

/** The value of `given` for `spec`; `source` is how the person wrote it (`--poll`, `AGENTQ_POLL`). */
function convert(spec: FlagSpec, given: string, source: string): string | number | boolean {
  const refuse = (what: string): never => {
    throw new AgentqError("usage", `${source}: ${JSON.stringify(given.slice(0, 200))} ${what}`);
  };
  if (spec.kind === "boolean") {
    const value = BOOLEAN_WORDS[given.toLowerCase()];
    return value ?? refuse("is neither true nor false");
  }
  const wrong = problem[spec.kind === "path" ? "text" : spec.kind](given);
  if (wrong !== null) return refuse(wrong);
  if (spec.multiple && given === "") return refuse("is empty");
  if (spec.kind === "text") return given;
  if (spec.kind === "path") return given === "" ? refuse("is empty") : given;
  const number = Number(given);
  if (spec.min !== undefined && number < spec.min) return refuse(`is less than ${spec.min}`);
  return number;
}

/** What environment or config say: all of it where the flag takes several values, else what was said last. */
function settled(spec: FlagSpec, values: readonly string[], source: string) {
  return spec.multiple
    ? values.map((one) => String(convert(spec, one, source)))
    : convert(spec, values.at(-1)!, source);
}

/** Where the flags that no word of the command line set were found. */
const sources = new WeakMap<Flags, ReadonlyMap<string, string>>();

/** How the person set a flag that isn't on the command line (`AGENTQ_POLL`, `git config agentq.poll`); else null. */
export function sourceOf(flags: Flags, flag: string): string | null {
  return sources.get(flags)?.get(flag) ?? null;
}

/**
 * Resolves every flag of a command.
 *
 * @param given values from the command line, as the parser left them
 * @param config the values of `agentq.<flag>` in git config, the one that counts last; called only for flags not
 * set otherwise
 */
export function resolveFlags(
  specs: readonly FlagSpec[],
  given: Readonly<Record<string, unknown>>,
  config: (flag: string) => readonly string[],
): Flags {
  const flags: Record<string, string | number | boolean | readonly string[]> = {};
  const found = new Map<string, string>();
  sources.set(flags, found);
  for (const spec of specs) {
    const value = given[spec.name];
    if (Array.isArray(value)) {
      flags[spec.name] = value.map((one) => String(convert(spec, String(one), `--${spec.name}`)));
      continue;
    }
    if (value === true || value === false) {
      flags[spec.name] = value;
      continue;
    }
    if (typeof value === "string") {
      flags[spec.name] = convert(spec, value, `--${spec.name}`);
      continue;
    }
    if (!spec.argvOnly) {
      const variable = environmentName(spec.name);
      const fromEnvironment = process.env[variable];
      // An empty variable means "not set", as with git's own.
      const values = spec.multiple
        ? (fromEnvironment ?? "").split("\n").filter((line) => line !== "")
        : fromEnvironment
        ? [fromEnvironment]
        : [];
      if (values.length > 0) {
        flags[spec.name] = settled(spec, values, variable);
        found.set(spec.name, variable);
        continue;
      }
      const fromConfig = spec.name === "repo" ? [] : config(spec.name);
      if (fromConfig.length > 0) {
        const source = `git config agentq.${spec.name}`;
        flags[spec.name] = settled(spec, fromConfig, source);
        found.set(spec.name, source);
        continue;
      }
    }
    if (spec.default !== undefined) flags[spec.name] = convert(spec, spec.default, spec.name);
  }
  return flags;
}
