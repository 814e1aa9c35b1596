/**
 * What a command is: its words, arguments, flags and where its code is. Everything that knows the
 * command line (the parser, `--help`, completions, docs/cli.md) reads these specs; only `parse-fully.ts`
 * knows which parser library serves them.
 */
import type { Context } from "./context.ts";

/** How a flag's text becomes a value; each kind is validated in `parse.ts`. */
export type FlagKind = "text" | "integer" | "seconds" | "path" | "boolean";

export interface FlagSpec {
  /** Long name without dashes, `verify-cmd`. Its settings: AGENTQ_VERIFY_CMD, agentq.verify-cmd. */
  readonly name: string;
  readonly kind: FlagKind;
  /** Placeholder in help, `CMD`; required for all kinds but boolean. */
  readonly value?: string;
  readonly description: string;
  readonly default?: string;
  /** Smallest value accepted, for integer and seconds. */
  readonly min?: number;
  /** Takes one or more values: `--drop a b`, one a line in the environment, one a value in config. */
  readonly multiple?: boolean;
  /** One letter, `n` for `-n`. */
  readonly short?: string;
  /**
   * Only the command line can set it, neither environment nor config: it names one thing, or is an
   * operator's word for one occasion.
   */
  readonly argvOnly?: boolean;
}

export interface ArgumentSpec {
  readonly name: string;
  readonly description: string;
  readonly required: boolean;
  readonly variadic?: boolean;
}

/** Parsed flags by their long name; absent where nothing set them and there is no default. */
export type Flags = Readonly<
  Record<string, string | number | boolean | readonly string[] | undefined>
>;

/** A command's code: returns the process exit code. */
export interface CommandModule {
  run(context: Context, args: readonly string[], flags: Flags): Promise<number>;
}

export interface CommandSpec {
  /** The words that name it: `["queue", "ls"]`. */
  readonly path: readonly string[];
  readonly summary: string;
  /** Paragraphs for `--help` after the summary. */
  readonly details?: string;
  readonly arguments?: readonly ArgumentSpec[];
  /** What somebody may have meant who gives it more arguments than it takes. */
  readonly strayHint?: string;
  readonly flags?: readonly FlagSpec[];
  /** Worked examples: at least one. */
  readonly examples: readonly string[];
  readonly load: () => Promise<CommandModule>;
  /** Over in milliseconds, unless it comes to landing: compiling its code would cost more than it gives. */
  readonly brief?: boolean;
  /** Goes on where the clone can't be read, with what its config says if that can be; it says why itself. */
  readonly withoutClone?: boolean;
  /** The last argument is another program and its words, which stand after `--`. */
  readonly program?: boolean;
  /** Words after the arguments belong to another program: flags among them are left alone. */
  readonly passThrough?: boolean;
}

/** What a command returns that a signal has ended, after saying what it did until then. */
export const STOPPED = -1;

/** Flags that every command takes. */
export const GLOBAL_FLAGS: readonly FlagSpec[] = [
  {
    name: "repo",
    kind: "path",
    value: "DIR",
    description: "the clone to work in (default: the repository around the current directory)",
  },
  {
    name: "remote",
    kind: "text",
    value: "NAME|URL",
    description: "the origin that holds the queue (default: origin)",
  },
  {
    name: "branch",
    kind: "text",
    value: "NAME",
    description: "the branch to land on (default: the remote's HEAD, else main)",
  },
  {
    name: "namespace",
    kind: "text",
    value: "REF",
    description: "where the queue's refs live (default: refs/weave)",
  },
  {
    name: "state",
    kind: "path",
    value: "DIR",
    description:
      "local state (default: $AGENTQ_STATE, else $XDG_STATE_HOME/agentq, else ~/.local/state/agentq)",
  },
  {
    name: "recover-stale",
    kind: "boolean",
    description:
      "prove the owner of a store's stale lock gone, and go on (this machine's submissions: always)",
  },
  { name: "json", kind: "boolean", description: "print one JSON document on stdout" },
  {
    name: "quiet",
    kind: "boolean",
    description: "no progress on stderr, only warnings and errors",
  },
  { name: "verbose", kind: "boolean", description: "say more on stderr" },
];
