/** One thing that a doctor looked at, and what to do about it. */
import { AgentqError } from "../errors.ts";
import { systemError } from "../platform/system-error.ts";

export type CheckStatus = "ok" | "warn" | "fail" | "skip";

export interface Check {
  readonly name: string;
  readonly status: CheckStatus;
  readonly message: string;
  /** What to do about it; null when there is nothing to do. */
  readonly hint: string | null;
}

export const check = (
  name: string,
  status: CheckStatus,
  message: string,
  hint: string | null = null,
): Check => ({ name, status, message, hint });

/** An error as the check that met it. */
export function failed(name: string, thrown: unknown): Check {
  const error = systemError(thrown) ?? thrown;
  if (error instanceof AgentqError) return check(name, "fail", error.message, error.hint);
  return check(name, "fail", error instanceof Error ? error.message : String(error));
}
