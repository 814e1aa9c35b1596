/** Which ticket brought a commit onto the branch, for the report of one that finds it there. */
import { AgentqError } from "../errors.ts";
import { throwIfAborted } from "../platform/clock.ts";
import type { Oid } from "../git/types.ts";
import { numberOf, type ResultEntry } from "./chain.ts";
import { readAhead } from "./read-ahead.ts";
import type { Queue } from "./snapshot.ts";

/** How many results are looked at: a few round trips, and a commit is seldom submitted again later. */
const LOOK_BACK = 100;

/**
 * The newest of the last {@link LOOK_BACK} results up to `done` that landed `candidate`, or made it; null
 * when there is none, and when the chain can't be read so far: a report is worth no landing.
 */
export async function landedBefore(
  { chains }: Queue,
  done: ResultEntry | null,
  candidate: Oid,
  signal: AbortSignal,
): Promise<ResultEntry | null> {
  if (done === null) return null;
  const lowest = Math.max(0, numberOf(done) - LOOK_BACK + 1);
  try {
    let asked = false;
    for (let at: ResultEntry | null = done; at !== null && numberOf(at) >= lowest;) {
      const { landed, candidate: was } = at.message;
      if (landed && (was === candidate || landed === candidate)) return at;
      if (!asked && numberOf(at) > lowest) await readAhead(chains, "done", at, lowest, signal);
      asked = true;
      at = await chains.before("done", at, signal);
    }
  } catch (error) {
    throwIfAborted(signal);
    if (!(error instanceof AgentqError)) throw error;
  }
  return null;
}
