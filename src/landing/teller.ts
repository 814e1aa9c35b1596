/** What a waiter or lander waits for, in words. */
import type { DutyOptions, Turn } from "./duty.ts";
import type { Snapshot } from "./snapshot.ts";

/** Tells what is being waited for, each thing once. */
export function createTeller(options: DutyOptions) {
  let last = "";
  return (turn: Turn, snapshot: Snapshot, ticket: number | null) => {
    const text = tell(turn, snapshot, ticket);
    if (text !== null && text !== last) options.onProgress?.(text);
    last = text ?? last;
  };
}

function tell(turn: Turn, snapshot: Snapshot, ticket: number | null): string | null {
  const ahead = ticket === null ? snapshot.unacked : ticket - snapshot.next;
  const waiting = ticket === null
    ? `${ahead} queued`
    : `ticket ${ticket}: ${ahead > 0 ? `${ahead} ahead` : "next"}`;
  switch (turn.why) {
    case "paused":
      return `${waiting}; landing is paused by ${turn.by}${turn.reason ? `: ${turn.reason}` : ""}`;
    case "not-now":
      return `${waiting}; ${turn.because}`;
    case "left":
      return `ticket ${turn.ticket} is left to another lander: ${turn.because}`;
    case "failed": {
      const error = turn.error as Error;
      return `ticket ${turn.ticket}: its checks could not be run here (${error?.message}); ` +
        `leaving it to another lander for a moment`;
    }
    case "lost":
      return `stopped landing: ${turn.because}`;
    default:
      return null;
  }
}
