/**
 * The usual command lines, read without the parser library, which takes longer to load than they take.
 * Everything that isn't plain, mistakes among it, is left to that library: null says only that.
 *
 * Plain is: `--flag`, `--flag value`, `--flag=value`, and words, none of them empty or beginning with a
 * dash, as many as the command takes.
 */
import type { Parsed } from "./parse.ts";
import { type CommandSpec, GLOBAL_FLAGS } from "./spec.ts";

/** What parse() would make of `rest`, or null. */
export function parsePlain(spec: CommandSpec, rest: readonly string[]): Parsed | null {
  if (spec.passThrough) return null;
  const flags = new Map(
    [...(spec.flags ?? []), ...GLOBAL_FLAGS].map((flag) => [`--${flag.name}`, flag]),
  );
  const args: string[] = [];
  const given: Record<string, unknown> = {};
  for (let at = 0; at < rest.length; at++) {
    const word = rest[at]!;
    if (!word.startsWith("-")) {
      if (word === "") return null;
      args.push(word);
      continue;
    }
    const equals = word.indexOf("=");
    const flag = flags.get(equals < 0 ? word : word.slice(0, equals));
    if (flag === undefined || flag.multiple) return null;
    if (flag.kind === "boolean") {
      if (equals >= 0) return null;
      given[flag.name] = true;
      continue;
    }
    const value = equals < 0 ? rest[++at] : word.slice(equals + 1);
    if (value === undefined || value === "" || value.startsWith("-")) return null;
    given[flag.name] = value;
  }
  const wanted = spec.arguments ?? [];
  const least = wanted.filter(({ required }) => required).length;
  const most = wanted.some(({ variadic }) => variadic) ? Infinity : wanted.length;
  return args.length >= least && args.length <= most ? { args, given } : null;
}
