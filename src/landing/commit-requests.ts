/**
 * Asking an origin for commits, with few round trips: what several walks along the chains ask for at the
 * same time goes into one request.
 */
import type { Oid, Origin } from "../git/types.ts";

/** Asks for commits and so many generations of them, the commits themselves being the first. */
export type CommitRequest = (
  oids: readonly Oid[],
  generations: number,
  signal?: AbortSignal,
) => Promise<ReadonlyMap<Oid, Uint8Array>>;

interface Round {
  readonly oids: Set<Oid>;
  readonly signal: AbortSignal | undefined;
  generations: number;
  readonly answer: Promise<ReadonlyMap<Oid, Uint8Array>>;
}

/** Requests to `origin` that are put together with others of the same turn. */
export function commitRequests(origin: Origin): CommitRequest {
  let open: Round | null = null;

  function begin(signal: AbortSignal | undefined): Round {
    // After all that is ready to run now: a walk that goes on where an answer came has asked by then.
    const turn = new Promise<void>((resolve) => setImmediate(resolve));
    const round: Round = {
      oids: new Set(),
      signal,
      generations: 1,
      answer: turn.then(() => {
        if (open === round) open = null;
        return origin.readCommits([...round.oids], signal, round.generations);
      }),
    };
    return round;
  }

  return (oids, generations, signal) => {
    // One that is aborted takes nobody else's request with it.
    const round = open !== null && open.signal === signal ? open : open = begin(signal);
    for (const oid of oids) round.oids.add(oid);
    round.generations = Math.max(round.generations, generations);
    return round.answer;
  };
}
