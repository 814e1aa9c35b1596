/** `--help`, made from the specs. */
import { environmentName } from "./settings.ts";
import { type CommandSpec, type FlagSpec, GLOBAL_FLAGS } from "./spec.ts";

function columns(rows: readonly (readonly [string, string])[]): string {
  const width = Math.min(30, Math.max(...rows.map(([left]) => left.length)));
  return rows.map(([left, right]) =>
    left.length > width
      ? `  ${left}\n  ${" ".repeat(width)}  ${right}`
      : `  ${left.padEnd(width)}  ${right}`
  ).join("\n");
}

function flagRow(flag: FlagSpec): readonly [string, string] {
  const left = `${flag.short ? `-${flag.short}, ` : ""}--${flag.name}${
    flag.value ? ` ${flag.value}` : ""
  }`;
  const standard = flag.default === undefined ? "" : ` (default: ${flag.default})`;
  return [left, `${flag.description}${standard}`];
}

/** `agentq submit [flags]`, `agentq queue ack NAME ID… [flags]`, `agentq queue work NAME [flags] -- CMD…`. */
export function usageLine(spec: CommandSpec): string {
  const words = (spec.arguments ?? []).map((one) => {
    const name = `${one.name.toUpperCase()}${one.variadic ? "…" : ""}`;
    return one.required ? name : `[${name}]`;
  });
  // Flags stand in front of another program's words: behind them they are its own.
  if (spec.program) words.splice(-1, 0, "[flags] --");
  else words.push("[flags]");
  return ["agentq", ...spec.path, ...words].join(" ");
}

/** The help of one command. */
export function commandHelp(spec: CommandSpec): string {
  const parts = [`${spec.summary}.`, `Usage: ${usageLine(spec)}`];
  if (spec.details) parts.push(spec.details);
  if (spec.arguments?.length) {
    parts.push(
      `Arguments:\n${
        columns(spec.arguments.map((one) => [one.name.toUpperCase(), one.description] as const))
      }`,
    );
  }
  if (spec.flags?.length) parts.push(`Flags:\n${columns(spec.flags.map(flagRow))}`);
  parts.push(`Global flags:\n${columns(GLOBAL_FLAGS.map(flagRow))}`);
  const settable = (spec.flags ?? []).find((flag) => !flag.argvOnly) ?? GLOBAL_FLAGS[1]!;
  const argvOnly = (spec.flags ?? []).filter((flag) => flag.argvOnly);
  parts.push(
    `Flags can also be set by environment (${environmentName(settable.name)}) ` +
      `or git config (agentq.${settable.name})` +
      (argvOnly.length === 0
        ? "."
        : `;\nonly on the command line: ${argvOnly.map(({ name }) => `--${name}`).join(", ")}.`),
  );
  parts.push(`Examples:\n${spec.examples.map((example) => `  ${example}`).join("\n")}`);
  return `${parts.join("\n\n")}\n`;
}

/** The list of commands. */
export function generalHelp(commands: readonly CommandSpec[], version: string): string {
  const rows = commands.map((one) => [one.path.join(" "), one.summary] as const);
  return `agentq ${version}: a landing queue for coding agents, kept in refs of the origin they share.

Usage: agentq COMMAND [flags]

Commands:
${columns(rows)}

Global flags:
${
    columns([...GLOBAL_FLAGS.map(flagRow), [
      "--version",
      "print the version (with --json as a document)",
    ]])
  }

Run agentq COMMAND --help for one command. A first look: agentq demo
`;
}
