/** Reading the queue again and again, through what may be over in a moment. */
import { throwIfAborted } from "../platform/clock.ts";
import { type AgentqError, isAgentqError } from "../errors.ts";
import { wantedPause } from "../git/protocol/again.ts";
import type { DutyOptions } from "./duty.ts";
import { type Queue, readSnapshot, type Snapshot } from "./snapshot.ts";

/** How long the origin may be out of reach while waiting, before that is an error. */
const UNREACHABLE_MS = 60_000;
/** How long a server that says when to come back is left alone at most, in milliseconds. */
const MAX_WANTED_MS = 60_000;

/** Bears errors that may be over in a moment, for a while. */
export function createPatience(
  { clock, signal, onProgress }: DutyOptions,
  bearable: (error: unknown) => error is AgentqError,
) {
  let failingSince: number | null = null;
  return {
    /** An answer was had: what comes next begins anew. */
    good() {
      failingSince = null;
    },
    /**
     * Milliseconds that the server wants to be left alone.
     * @throws the error, unless trying again can help and it hasn't been tried for long
     */
    bear(error: unknown): number {
      throwIfAborted(signal);
      if (!bearable(error)) throw error;
      failingSince ??= clock.monotonic();
      if (clock.monotonic() - failingSince > UNREACHABLE_MS) throw error;
      const said = error.message.replace(/\.$/, "");
      // Who answers with a status was reached.
      const what = typeof error.details?.status === "number" ? "" : "the origin can't be reached: ";
      onProgress?.(`${what}${said}; trying again`);
      return Math.min(wantedPause(error) ?? 0, MAX_WANTED_MS);
    },
  };
}

const isRetryable = (error: unknown): error is AgentqError =>
  isAgentqError(error) && error.retryable;

/** What a server or the way to it may have failed with, and no longer does in a moment. */
export function isOfConnection(error: unknown): error is AgentqError {
  const codes = ["origin-unreachable", "origin-timeout", "server-error", "protocol-error"] as const;
  return isRetryable(error) && isAgentqError(error, ...codes);
}

/** Reads the queue again after about `poll`; bears an origin that is out of reach for a while. */
export function createPoller(queue: Queue, options: DutyOptions) {
  const { clock, signal } = options;
  const reading = createPatience(options, isRetryable);
  return async function next(limit = Infinity, atLeast = 0, now = false): Promise<Snapshot> {
    for (let pause = atLeast, first = now;; first = false) {
      // Jitter: many waiters must not ask in step.
      const usual = options.poll * (0.8 + clock.random() * 0.4);
      if (!first) await clock.sleep(Math.min(limit, Math.max(usual, pause)), signal);
      try {
        const snapshot = await readSnapshot(queue, signal);
        reading.good();
        return snapshot;
      } catch (error) {
        pause = reading.bear(error);
      }
    }
  };
}
