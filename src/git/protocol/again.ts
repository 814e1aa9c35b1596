/**
 * Reads that are asked again by themselves: a server that says it is busy or broken, and an answer that
 * was cut off, are over in a moment more often than not.
 *
 *   read ── answer cut off, connection cut, HTTP 408, 429, 5xx ──▶ pause ──▶ read again, three times at most
 *
 * Where no connection stands, or nothing comes for as long as a timeout, asking again at once would only
 * double the wait: whoever watches a queue asks again by itself.
 */
import { AgentqError } from "../../errors.ts";
import { type Clock, systemClock, throwIfAborted } from "../../platform/clock.ts";

/** Pauses before asking again, in milliseconds, where the server names none; each is jittered. */
const PAUSES = [100, 300, 900];
/** How long a pause may be that a server asks for: one that wants more is left alone, with an error. */
const MAX_PAUSE = 10_000;
const CUT = new Set(["ECONNRESET", "EPIPE"]);

/** Milliseconds that the server wants to be left alone (`Retry-After`); null when it said nothing. */
export function wantedPause(error: unknown): number | null {
  const seconds = error instanceof AgentqError ? error.details?.retryAfter : undefined;
  return typeof seconds === "number" ? seconds * 1000 : null;
}

/** True where the same read may go well in a moment. */
export function isPassing(error: unknown): error is AgentqError {
  if (!(error instanceof AgentqError && error.retryable)) return false;
  switch (error.code) {
    case "protocol-error":
      return true;
    case "server-error":
      return error.details?.status !== undefined;
    case "origin-unreachable":
      return CUT.has(String(error.details?.errno));
    default:
      return false;
  }
}

/** Reads, and reads again while that promises something. @throws the last error */
export async function askAgain<T>(
  read: () => Promise<T>,
  signal: AbortSignal | undefined,
  clock: Clock = systemClock,
): Promise<T> {
  for (let tries = 0;; tries++) {
    try {
      return await read();
    } catch (error) {
      throwIfAborted(signal);
      const pause = PAUSES[tries];
      if (pause === undefined || !isPassing(error)) throw error;
      const wanted = wantedPause(error);
      if (wanted !== null && wanted > MAX_PAUSE) throw error;
      await clock.sleep(wanted ?? pause * (0.5 + clock.random()), signal);
    }
  }
}
