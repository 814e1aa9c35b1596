/** A backend that is away for a while: told once when it goes, and once when it is back. */
import { AgentqError, isAgentqError } from "../../errors.ts";
import type { WorkerEvent } from "./types.ts";

export interface Outage {
  readonly away: boolean;
  /**
   * A call has failed that began at `begunAt` (by `performance.now()`; now unless given): what passes is told the
   * first time only, anything else each time.
   */
  failed(error: unknown, begunAt?: number): void;
  /** What needs the whole backend has worked: on a database that is busy a look succeeds all the time. */
  over(): void;
}

/** `failed` counts each call, whether it is told or not. */
export function createOutage(
  tell: (event: WorkerEvent) => void,
  counted: () => void,
): Outage {
  let since: number | null = null;
  return {
    get away() {
      return since !== null;
    },
    failed(error, begunAt = performance.now()) {
      counted();
      if (!isPassing(error)) return tell({ type: "error", error });
      if (since !== null) return;
      since = begunAt;
      tell({ type: "away", error });
    },
    over() {
      if (since === null) return;
      const afterMs = Math.round(performance.now() - since);
      since = null;
      tell({ type: "back", afterMs });
    },
  };
}

/** Faults that another look may find gone. Anything else ends the worker: it could only spin. */
export function isPassing(error: unknown): error is AgentqError {
  if (!(error instanceof AgentqError)) return false;
  return error.retryable || isAgentqError(error, "backend-outcome-unknown", "commit-uncertain");
}
