/** An error that ends a wait, not the ticket. */
import { AgentqError } from "../src/errors.ts";
import { toAgentqError } from "./output/errors.ts";

/** The same error, saying which ticket goes on without us (`details.ticket`). */
export function whileQueued(thrown: unknown, ticket: number): AgentqError {
  const error = toAgentqError(thrown);
  if (error.details?.lost === true) return error;
  return new AgentqError(error.code, `ticket ${ticket} stays queued; ${error.message}`, {
    cause: error.cause ?? error,
    hint: error.hint,
    retryable: error.retryable,
    details: { ...error.details, ticket },
  });
}
