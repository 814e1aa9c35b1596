/**
 * Waiting for a submission that somebody else holds: for the ticket that another delivery gets it, or for what
 * delivers nothing (a queue command) to let go of it. It is said what is waited for, and not waited in vain.
 */
import { AgentqError } from "../errors.ts";
import type { Oid } from "../git/types.ts";
import type { Clock } from "../platform/clock.ts";
import { PATIENCE_MS } from "./push.ts";
import type { SubmissionRecord } from "./submission-record.ts";
import type { Submissions } from "./submission-store.ts";

/** How often to look whether another process has got the ticket. */
export const SHARED_POLL_MS = 50;

/** How often to look who holds it; and how long another delivery may take before that is said. */
const LOOK_MS = 1000;

interface OthersOptions {
  readonly submissions: Pick<Submissions, "takenAway">;
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
  readonly signal?: AbortSignal;
  readonly onNote?: (text: string) => void;
}

/**
 * A pause before the next look at `record`, which somebody else holds, to be called each time that is so.
 * @throws `submission-busy` when it has taken too long, or will
 */
export function patientWithOthers(
  { submissions, clock, signal, onNote }: OthersOptions,
): (record: SubmissionRecord) => Promise<void> {
  const began = clock.monotonic();
  let looked = -Infinity;
  const said = new Set<string>();
  const say = (what: string, text: string) => {
    if (!said.has(what)) onNote?.(text);
    said.add(what);
  };
  return async (record) => {
    const waited = clock.monotonic() - began;
    const isOver = waited > PATIENCE_MS;
    if (isOver || waited - looked >= LOOK_MS) {
      looked = waited;
      const taken = await submissions.takenAway(record);
      if (isOver) throw taken ?? busy(record.candidate);
      const left = PATIENCE_MS - waited;
      if (taken !== null) {
        const lease = taken.details?.leaseLeftMs;
        if (typeof lease === "number" && lease > left) throw taken;
        const until = typeof lease === "number"
          ? `until its lease runs out, in ${Math.ceil(lease / 1000)} s`
          : `${Math.ceil(left / 1000)} s for it to come back`;
        say(taken.message, `${taken.message}; waiting ${until}`);
      } else if (waited >= LOOK_MS) {
        say(
          "busy",
          `another process is submitting ${
            record.candidate.slice(0, 12)
          } from here: waiting for its ticket`,
        );
      }
    }
    await clock.sleep(SHARED_POLL_MS, signal);
  };
}

function busy(candidate: Oid): AgentqError {
  return new AgentqError(
    "submission-busy",
    `another process has been submitting ${candidate} from here for a while`,
  );
}
