/** The one place where an error is printed. */
import { AgentqError } from "../../src/errors.ts";
import { escapeTerminal, safeJson } from "./escape.ts";
import { outputFault, tellError, writeErr, writeOut } from "./write.ts";

/** Any thrown value as an {@link AgentqError}: system errors keep their errno, the rest is `internal`. */
export function toAgentqError(thrown: unknown): AgentqError {
  if (thrown instanceof AgentqError) return thrown;
  const error = thrown as { code?: unknown; message?: unknown; path?: unknown; syscall?: unknown };
  const message = typeof error?.message === "string" ? error.message : String(thrown);
  if (typeof error?.code === "string" && typeof error.syscall === "string") {
    return new AgentqError("io-error", message, {
      cause: thrown,
      details: {
        errno: error.code,
        syscall: error.syscall,
        ...(typeof error.path === "string" ? { path: error.path } : {}),
      },
    });
  }
  return new AgentqError("internal", message, { cause: thrown });
}

/**
 * Prints `error` once: a JSON document on stdout with `--json`, else message and hint on stderr; so too
 * where standard output can't be written.
 */
export function printError(error: AgentqError, options: { json: boolean; verbose: boolean }): void {
  if (options.json) {
    writeOut(`${safeJson({ schema: "agentq.error/1", error: error.toJSON() })}\n`);
  }
  if (!options.json || outputFault() !== null) {
    tellError(`agentq: ${escapeTerminal(error.message)}\nhint: ${escapeTerminal(error.hint)}\n`);
  }
  if (options.verbose || error.code === "internal") {
    writeErr(`${escapeTerminal(error.stack ?? "")}\n`);
    if (error.cause instanceof Error) writeErr(`${escapeTerminal(error.cause.stack ?? "")}\n`);
  }
}
