/**
 * The one error type of agentq and the table of every code it can carry.
 *
 * An error is raised where its cause is known, travels upward unchanged, and is printed once, in
 * `cli/`. Codes are stable: scripts match on them (`--json` prints `{"error":{"code",…}}`).
 */

/** What a code means: its default hint, whether trying the same thing again can help, its exit code. */
export interface ErrorKind {
  /** What the person or agent reading it should do next. */
  readonly hint: string;
  /** True when the same call may succeed later without any change. */
  readonly retryable?: boolean;
  /** Process exit code; 2 (the run failed) unless given. */
  readonly exit?: 1 | 2 | 3 | 64;
}

/** Every error code, in one place, grouped by the layer that raises it. */
export const ERROR_KINDS = {
  // cli
  "usage": { hint: "Run the command with --help to see what it takes.", exit: 64 },
  "internal": {
    hint: "This is a fault in agentq: please report it with the command that led here.",
  },
  "interrupted": { hint: "Run the command again: nothing was left half done.", retryable: true },
  "config-invalid": { hint: "Correct the setting that the message names." },

  // platform
  "io-error": { hint: "Look at the file or directory that the message names." },

  // git: repositories and objects
  "not-a-repository": { hint: "Run inside a clone, or name one with --repo DIR." },
  "repository-unsupported": {
    hint: "agentq reads SHA-1 repositories with files refs; see docs/git.md.",
  },
  "repository-corrupt": { hint: "Run git fsck in that repository." },
  "object-missing": {
    hint: "Fetch it, or run git fsck: the repository lacks an object it refers to.",
  },
  "revision-unknown": { hint: "Name a commit, branch or tag that exists in the clone." },
  "ref-name-invalid": { hint: "Use a name that git check-ref-format accepts." },
} as const satisfies Record<string, ErrorKind>;

/** A stable error code, a key of {@link ERROR_KINDS}. */
export type ErrorCode = keyof typeof ERROR_KINDS;

/** What an {@link AgentqError} can be given besides its code and message. */
export interface AgentqErrorOptions {
  /** Replaces the code's own hint where something more exact is known. */
  hint?: string;
  retryable?: boolean;
  cause?: unknown;
  /** Facts for `--json`: errno, path, ref, commit. Never secrets. */
  details?: Record<string, unknown>;
}

/** The error every layer throws: a code, a message that names the thing, a hint what to do. */
export class AgentqError extends Error {
  override readonly name = "AgentqError";
  readonly code: ErrorCode;
  readonly hint: string;
  readonly retryable: boolean;
  readonly details: Record<string, unknown> | undefined;

  constructor(code: ErrorCode, message: string, options: AgentqErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    const kind: ErrorKind = ERROR_KINDS[code];
    this.code = code;
    this.hint = options.hint ?? kind.hint;
    this.retryable = options.retryable ?? kind.retryable ?? false;
    this.details = options.details;
  }

  /** The process exit code that this error stands for. */
  get exitCode(): number {
    return (ERROR_KINDS[this.code] as ErrorKind).exit ?? 2;
  }

  /** The shape printed by `--json` under `error`. */
  toJSON(): Record<string, unknown> {
    return {
      code: this.code,
      message: this.message,
      hint: this.hint,
      ...(this.retryable ? { retryable: true } : {}),
      ...(this.details ? { details: this.details } : {}),
    };
  }
}

/** True when `error` is an {@link AgentqError} (with one of `codes`, when any are given). */
export function isAgentqError(error: unknown, ...codes: ErrorCode[]): error is AgentqError {
  return error instanceof AgentqError && (codes.length === 0 || codes.includes(error.code));
}
