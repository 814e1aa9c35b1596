/** argv → one command with its arguments and flags as written. */
import { AgentqError } from "../src/errors.ts";
import { closest } from "../src/platform/closest.ts";
import { parsePlain } from "./parse-plain.ts";
import { type CommandSpec, GLOBAL_FLAGS } from "./spec.ts";

export interface Parsed {
  readonly args: readonly string[];
  /** Raw flag values by long name: text, true, or a list. */
  readonly given: Readonly<Record<string, unknown>>;
}

export interface Located {
  readonly spec: CommandSpec;
  /** argv without the command's words, in order. */
  readonly rest: readonly string[];
}

/** Flags with a value that may stand before a command's last word: `queue --backend URL ls`. */
const takesValue = new Set([
  ...GLOBAL_FLAGS.filter((flag) => flag.kind !== "boolean").map((flag) => `--${flag.name}`),
  "--backend",
]);

/** Finds which command `argv` names; global flags may stand before its words. */
export function locate(argv: readonly string[], commands: readonly CommandSpec[]): Located {
  const words: string[] = [];
  const rest: string[] = [];
  let at = 0;
  let best: { spec: CommandSpec; at: number; rest: number } | undefined;
  for (; at < argv.length && words.length < 3; at++) {
    const word = argv[at]!;
    if (word.startsWith("-")) {
      if (words.length > 0 && best) break;
      rest.push(word);
      if (takesValue.has(word) && at + 1 < argv.length) rest.push(argv[++at]!);
      continue;
    }
    words.push(word);
    const spec = commands.find((one) => one.path.join(" ") === words.join(" "));
    if (spec) best = { spec, at: at + 1, rest: rest.length };
    const prefix = `${words.join(" ")} `;
    if (!commands.some((one) => `${one.path.join(" ")} `.startsWith(prefix))) break;
  }
  if (best) {
    return { spec: best.spec, rest: [...rest.slice(0, best.rest), ...argv.slice(best.at)] };
  }
  throw unknownCommand(words, commands);
}

function unknownCommand(words: readonly string[], commands: readonly CommandSpec[]): AgentqError {
  const names = commands.map((one) => one.path.join(" "));
  if (words.length === 0) {
    return new AgentqError("usage", "no command given", {
      hint: "Run agentq --help for the list of commands.",
    });
  }
  const said = words.join(" ");
  const below = names.filter((name) => name.startsWith(`${said} `));
  if (below.length > 0) {
    return new AgentqError("usage", `${said} needs one of its commands`, {
      hint: `One of: ${below.join(", ")}.`,
    });
  }
  const near = closest(said, names);
  return new AgentqError("usage", `there is no command ${JSON.stringify(said.slice(0, 100))}`, {
    hint: near ? `Did you mean ${near}?` : "Run agentq --help for the list of commands.",
  });
}

/** Parses the words after the command; anything unknown is a `usage` error. */
export async function parse(spec: CommandSpec, rest: readonly string[]): Promise<Parsed> {
  const plain = parsePlain(spec, rest);
  if (plain !== null) return plain;
  const { parseFully } = await import("./parse-fully.ts");
  return parseFully(spec, rest);
}
