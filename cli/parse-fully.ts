/** Any command line, well-formed or not. The only file that knows the parser library. */
import { Command, CommanderError, Option } from "commander";
import { AgentqError } from "../src/errors.ts";
import type { Parsed } from "./parse.ts";
import { type CommandSpec, type FlagSpec, GLOBAL_FLAGS } from "./spec.ts";

function option(flag: FlagSpec): Option {
  const names = `${flag.short ? `-${flag.short}, ` : ""}--${flag.name}`;
  const value = flag.kind === "boolean" ? "" : flag.multiple ? " <value...>" : " <value>";
  const made = new Option(`${names}${value}`);
  // Commander would make `--no-wait` the negation of a flag `wait`; here it is a flag of its own.
  made.negate = false;
  made.attributeName = () => flag.name;
  return made;
}

/** Parses the words after the command; anything unknown is a `usage` error. */
export function parseFully(spec: CommandSpec, rest: readonly string[]): Parsed {
  const command = new Command(`agentq ${spec.path.join(" ")}`)
    .exitOverride()
    .helpOption(false)
    .configureOutput({ writeErr: () => {}, writeOut: () => {} });
  for (const flag of [...(spec.flags ?? []), ...GLOBAL_FLAGS]) command.addOption(option(flag));
  for (const argument of spec.arguments ?? []) {
    const name = `${argument.name}${argument.variadic ? "..." : ""}`;
    command.argument(argument.required ? `<${name}>` : `[${name}]`);
  }
  if (spec.passThrough) command.passThroughOptions();
  try {
    command.parse([...rest], { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.code === "commander.excessArguments" && spec.strayHint) {
      throw new AgentqError("usage", `${spec.path.join(" ")} takes no arguments`, {
        hint: spec.strayHint,
      });
    }
    throw new AgentqError("usage", error.message.replace(/^error: /, "").replace(/\n/g, " "), {
      hint: `Run agentq ${spec.path.join(" ")} --help to see what it takes.`,
    });
  }
  return { args: command.args, given: command.opts() };
}
