/**
 * Words of the command line whose bytes aren't UTF-8. The runtime hands them on as text, with U+FFFD for what
 * fits nowhere: data would be changed without a word, a program be given another argument. The kernel still
 * has the bytes, and is only asked where that character stands. (Paths are told by whoever opens them.)
 */
import { Buffer } from "node:buffer";
import { readFileSync } from "node:fs";
import { AgentqError } from "../src/errors.ts";
import type { Parsed } from "./parse.ts";
import type { CommandSpec } from "./spec.ts";

const REPLACED = "\ufffd";

/** Throws `usage`, naming the argument, where one isn't what was given. */
export function refuseChanged(argv: readonly string[], spec: CommandSpec, parsed: Parsed): void {
  if (!argv.some((word) => word.includes(REPLACED))) return;
  const changed = changedWords(argv);
  const refuse = (word: unknown, name: string, hint: string) => {
    const bytes = typeof word === "string" ? changed.get(word) : undefined;
    if (bytes === undefined) return;
    const shown = bytes.toString("latin1").slice(0, 80)
      .replace(/[\x7f-\xff]/g, (char) => `<${char.charCodeAt(0).toString(16)}>`);
    throw new AgentqError("usage", `${name} is not UTF-8: ${JSON.stringify(shown)}`, { hint });
  };
  const named = spec.arguments ?? [];
  parsed.args.forEach((word, at) => {
    const { name } = named[Math.min(at, named.length - 1)] ?? { name: "an argument" };
    const program = spec.program === true && at >= named.length - 1;
    refuse(
      word,
      program ? `word ${at - named.length + 2} of the program` : name.toUpperCase(),
      program
        ? "Name it in a script and run that: words are passed on as text."
        : "Give bytes that are no text on standard input (-); write names in UTF-8.",
    );
  });
  for (const flag of spec.flags ?? []) {
    if (flag.kind !== "text" || flag.name === "backend") continue;
    refuse(parsed.given[flag.name], `--${flag.name}`, "Write it in UTF-8.");
  }
}

/** The bytes of each word that isn't what it reads as; none where nothing tells them (no /proc). */
function changedWords(argv: readonly string[]): Map<string, Buffer> {
  const changed = new Map<string, Buffer>();
  let all: Buffer;
  try {
    all = readFileSync("/proc/self/cmdline");
  } catch {
    return changed;
  }
  const given: Buffer[] = [];
  for (let from = 0; from < all.length;) {
    const end = all.indexOf(0, from);
    given.push(all.subarray(from, end < 0 ? all.length : end));
    from = end < 0 ? all.length : end + 1;
  }
  // Before them stand the program and what runs it.
  const own = given.slice(Math.max(0, given.length - argv.length));
  argv.forEach((word, at) => {
    const bytes = own[at];
    if (!word.includes(REPLACED) || !bytes || bytes.equals(Buffer.from(word))) return;
    changed.set(word, bytes);
    const value = /^--[\w-]+=/.exec(word)?.[0].length ?? 0; // `--flag=value`
    if (value > 0) changed.set(word.slice(value), bytes.subarray(value));
  });
  return changed;
}
