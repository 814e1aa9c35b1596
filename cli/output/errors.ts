/** The one place where an error is printed. */
import { AgentqError } from "../../src/errors.ts";
import { systemError } from "../../src/platform/system-error.ts";
import { escapeLine, escapeTerminal, safeJson } from "./escape.ts";
import { outputFault, tellError, writeErr, writeOut } from "./write.ts";

/** Any thrown value as an {@link AgentqError}: system errors keep their errno, the rest is `internal`. */
export function toAgentqError(thrown: unknown): AgentqError {
  if (thrown instanceof AgentqError) return thrown;
  const system = systemError(thrown);
  if (system !== null) return system;
  const said = (thrown as { message?: unknown } | null)?.message;
  const message = typeof said === "string" ? said : String(thrown);
  return new AgentqError("internal", message, { cause: thrown });
}

/** Names with newlines in them, which could look like lines of ours, as they are escaped elsewhere. */
function pathsOnOneLine(text: string, details: Record<string, unknown> | undefined): string {
  for (const value of Object.values(details ?? {})) {
    if (typeof value !== "string" || !/[\n\t]/.test(value)) continue;
    text = text.replaceAll(value, escapeLine(value));
  }
  return text;
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
    const said = (text: string) => escapeTerminal(pathsOnOneLine(text, error.details));
    tellError(`agentq: ${said(error.message)}\nhint: ${said(error.hint)}\n`);
  }
  if (options.verbose || error.code === "internal") {
    writeErr(`${escapeTerminal(error.stack ?? "")}\n`);
    if (error.cause instanceof Error) writeErr(`${escapeTerminal(error.cause.stack ?? "")}\n`);
  }
}
