/** `agentq completions`: scripts made from the specs, so that they never lag behind the commands. */
import { AgentqError } from "../../src/errors.ts";
import type { Context } from "../context.ts";
import { writeOut } from "../output/write.ts";
import { type CommandSpec, type FlagSpec, GLOBAL_FLAGS } from "../spec.ts";
import { COMMANDS } from "../table.ts";

/** For every run of words typed so far, the words that can follow. */
function nextWords(): Map<string, Set<string>> {
  const next = new Map<string, Set<string>>();
  for (const { path } of COMMANDS) {
    for (let i = 0; i < path.length; i++) {
      const before = path.slice(0, i).join(" ");
      next.set(before, (next.get(before) ?? new Set()).add(path[i]!));
    }
  }
  return next;
}

const flagsOf = (
  spec: CommandSpec,
): readonly FlagSpec[] => [...(spec.flags ?? []), ...GLOBAL_FLAGS];
const quote = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

function bash(): string {
  const words = [...nextWords()].map(([before, after]) =>
    `    ${quote(before)}) words=${quote([...after].join(" "))};;`
  );
  const flags = COMMANDS.map((spec) =>
    `    ${quote(spec.path.join(" "))}) flags=${
      quote(flagsOf(spec).map((flag) => `--${flag.name}`).join(" "))
    };;`
  );
  return `_agentq() {
  local cur=\${COMP_WORDS[COMP_CWORD]} said= words= flags= i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case \${COMP_WORDS[i]} in -*) ;; *) said="\${said:+$said }\${COMP_WORDS[i]}";; esac
  done
  case $said in
${words.join("\n")}
  esac
  while [ -n "$said" ]; do
    case $said in
${flags.join("\n")}
    esac
    [ -n "$flags" ] && break
    case $said in *' '*) said=\${said% *};; *) said=;; esac
  done
  case $cur in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$cur"));;
    *) COMPREPLY=($(compgen -W "$words" -- "$cur")); [ \${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "$cur"));;
  esac
}
complete -o filenames -F _agentq agentq
`;
}

function zsh(): string {
  return `#compdef agentq
autoload -U +X bashcompinit && bashcompinit
${bash()}`;
}

function fish(): string {
  const lines = ["complete -c agentq -f"];
  for (const [before, after] of nextWords()) {
    const seen = before === ""
      ? "__fish_use_subcommand"
      : `__fish_seen_subcommand_from ${before.split(" ").at(-1)}`;
    for (const word of after) lines.push(`complete -c agentq -n ${quote(seen)} -a ${quote(word)}`);
  }
  for (const spec of COMMANDS) {
    for (const flag of flagsOf(spec)) {
      const seen = `__fish_seen_subcommand_from ${spec.path.at(-1)}`;
      lines.push(
        `complete -c agentq -n ${quote(seen)} -l ${flag.name}${
          flag.kind === "boolean" ? "" : " -r"
        } -d ${quote(flag.description)}`,
      );
    }
  }
  return `${lines.join("\n")}\n`;
}

const SHELLS: Readonly<Record<string, () => string>> = { bash, zsh, fish };

export function run(_context: Context, args: readonly string[]): Promise<number> {
  const shell = args[0] ?? "";
  const script = Object.hasOwn(SHELLS, shell) ? SHELLS[shell] : undefined;
  if (!script) {
    throw new AgentqError("usage", `no completions for ${JSON.stringify(shell)}`, {
      hint: "One of: bash, zsh, fish.",
    });
  }
  writeOut(script());
  return Promise.resolve(0);
}
