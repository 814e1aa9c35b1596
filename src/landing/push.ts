/**
 * The compare-and-swap as the protocol uses it: won, lost or unknown; refused is an error at once.
 *
 * What to do after "lost" or "unknown" is the same everywhere: read the refs again and decide anew.
 * Whether an unknown push took effect is seen from the chains, since every push appends a commit that
 * nobody else could have made.
 */
import type { Clock } from "../platform/clock.ts";
import { AgentqError } from "../errors.ts";
import { wantedPause } from "../git/protocol/again.ts";
import type { ObjectReader, Oid, PushOutcome, RefUpdate } from "../git/types.ts";
import type { Entry } from "./chain.ts";
import { type NewCommit, withCommits } from "./chain-commit.ts";
import type { ChainName } from "./messages.ts";
import type { Queue } from "./snapshot.ts";

export interface PushRequest {
  readonly updates: readonly RefUpdate[];
  /** Chain commits made for this push. */
  readonly commits: readonly NewCommit[];
  /** Holds everything else the updates refer to that the origin may lack. */
  readonly objects?: ObjectReader;
  readonly remoteHas?: readonly Oid[];
  readonly signal?: AbortSignal;
}

/** What became of a push; `fault` is why it is unknown, where that is known. */
export type Pushed = { readonly status: "won" } | PushedNot;
export type PushedNot =
  | { readonly status: "lost" }
  | { readonly status: "unknown"; readonly fault?: AgentqError };

/**
 * Pushes once. A connection that broke is "unknown", whatever the transport thinks it had sent: what
 * follows, reading the refs again, is right in every case and fails by itself where nobody answers.
 * A ref that stays locked counts as that too: it may be free the next time.
 * @throws `push-refused` with the origin's own words; what the transport throws otherwise
 */
export async function pushOnce(
  queue: Queue,
  request: PushRequest,
): Promise<Pushed> {
  let outcome: PushOutcome;
  try {
    outcome = await queue.origin.push(
      request.updates,
      withCommits(request.commits, request.objects, queue.chains.commits),
      {
        ...(request.remoteHas && { remoteHas: request.remoteHas }),
        ...(request.signal && { signal: request.signal }),
      },
    );
  } catch (error) {
    if (request.signal?.aborted || !(error instanceof AgentqError && error.retryable)) throw error;
    return { status: "unknown", fault: error };
  }
  if (outcome.status === "unknown") {
    const { cause } = outcome;
    return { status: "unknown", ...(cause instanceof AgentqError && { fault: cause }) };
  }
  if (outcome.status !== "refused") return { status: outcome.status };
  const reasons = outcome.refs.map(({ ref, reason }) => `${ref}: ${reason}`);
  const said = outcome.remoteOutput.trim();
  throw new AgentqError(
    "push-refused",
    [
      `the origin refused the push: ${reasons.join("; ") || outcome.message}`,
      ...(said === "" ? [] : [said]),
    ].join("\n"),
    {
      ...(outcome.hint !== undefined && { hint: outcome.hint }),
      details: {
        refs: outcome.refs,
        remoteOutput: outcome.remoteOutput,
        ...(outcome.httpStatus !== undefined && { status: outcome.httpStatus }),
      },
    },
  );
}

/** How long a run that was stopped still asks what became of its push, in milliseconds. */
const FIND_OUT_MS = 10_000;

/** The signal to ask by what has become of something: also where the run was stopped, for a while. */
export function toFindOut(signal: AbortSignal | undefined): AbortSignal | undefined {
  return signal?.aborted ? AbortSignal.timeout(FIND_OUT_MS) : signal;
}

/**
 * What a push did whose run was stopped before its answer: `find` looks, by a signal of its own, and gives
 * what it has made, or null. A push that isn't seen may still be on its way.
 * @throws `push-unknown` unless it is found
 */
export async function foundAfterStop<T>(
  what: string,
  find: (signal: AbortSignal) => Promise<T | null>,
): Promise<T> {
  let cause: unknown;
  try {
    const found = await find(AbortSignal.timeout(FIND_OUT_MS));
    if (found !== null) return found;
  } catch (error) {
    cause = error;
  }
  throw new AgentqError(
    "push-unknown",
    `${what}: stopped before the origin's answer; it may or may not have been done`,
    { cause },
  );
}

/** What to throw where the refs can't be read after a push: of one whose answer was lost, that it may have been done. */
export function afterPush(what: string, pushed: PushedNot, error: unknown): unknown {
  if (pushed.status !== "unknown" || pushed.fault && isLocked(pushed.fault)) return error;
  if (!(error instanceof AgentqError) || !error.retryable) return error;
  return new AgentqError(
    "push-unknown",
    `${what}: the origin's answer was lost, and it can't be asked what it did: ${error.message}`,
    { cause: error, ...(error.details && { details: error.details }) },
  );
}

/** Why a push came to nothing that is known, where it is known. */
export function faultOf(pushed: Pushed): AgentqError | undefined {
  return pushed.status === "unknown" ? pushed.fault : undefined;
}

/** What a server that answered a push with an error status said about it, behind the error's message. */
export function wordsOf(fault: AgentqError): string {
  const said = String(fault.details?.remoteOutput ?? "").trim();
  return said === "" ? fault.message : `${fault.message}\n${said}`;
}

/** True where the server answered the push, with an error status: nothing was lost on the way. */
export function isTurnedDown(fault: AgentqError): boolean {
  return typeof fault.details?.status === "number";
}

/** The error of a push that the server turned down so, once the refs have shown that nothing moved. */
export function turnedDown(fault: AgentqError, what?: string): AgentqError {
  return new AgentqError(fault.code, `${what ? `${what}: ` : ""}${wordsOf(fault)}`, {
    cause: fault,
    retryable: fault.retryable,
    hint: isOfGateway(fault)
      ? "Its refs don't show it done yet. Try again later, or ask its operator."
      : "Its refs show that nothing was done. Try again later, or ask its operator.",
    ...(fault.details && { details: fault.details }),
  });
}

/** True when `oid` is `head` or before it in its chain, looking back to `until` (exclusive) at most. */
export async function chainHolds<C extends ChainName>(
  queue: Queue,
  chain: C,
  head: Entry<C> | null,
  oid: Oid,
  until: Oid | null,
  signal?: AbortSignal,
): Promise<boolean> {
  for (let at = head; at !== null && at.oid !== until;) {
    if (at.oid === oid) return true;
    at = await queue.chains.before(chain, at, signal);
  }
  return false;
}

export interface Retry {
  /**
   * Called after a lost or unknown push, with what shows progress, its ref's value now: waits a moment.
   * `asked` is when that push began, by the clock's monotonic time; now unless given.
   */
  again(
    place: string | null,
    pushed: PushedNot,
    signal?: AbortSignal,
    asked?: number,
  ): Promise<void>;
}

/** True where a gateway gave up on the server, which may do what it was asked later. */
const isOfGateway = ({ details }: AgentqError) => [502, 503, 504].includes(Number(details?.status));

/** How often a push may fail in a row while its ref doesn't move: then something else is wrong. */
const STUCK_AFTER = 25;
const UNKNOWN_AFTER = 6;

/** How long a server that answers pushes with an error status is left alone, in milliseconds. */
const BUSY_MS = 250;
/** How long one that says when to come back (`Retry-After`) is left alone at most, in milliseconds. */
const MAX_WANTED_MS = 10_000;

/**
 * How long somebody who asked for one push waits for lost answers, in milliseconds: a server that
 * stalls is given its timeout once, not six times.
 */
export const PATIENCE_MS = 30_000;

/** How long a ref may stay locked, its value the same all the time, for those who wait, in milliseconds. */
export const LOCKED_MS = 60_000;

/** True where a push was turned down because somebody held a lock: nothing was done, and it may be free soon. */
export function isLocked(fault: AgentqError | undefined): boolean {
  return fault?.code === "ref-locked";
}

/**
 * Retries without bound as long as there is progress, somebody's if not ours. A ref that doesn't move
 * while its pushes are said to lose is an error after a while; so is one that stays locked (a lock file left
 * behind in the origin), after `patience`, or after a minute.
 */
export function createRetry(
  clock: Clock,
  options: {
    readonly what: string;
    readonly start: string | null;
    readonly patience?: number;
    /** Told why the push before this failed, where that is known. */
    readonly onFault?: (fault: AgentqError) => void;
  },
): Retry {
  const { what, start, patience = Infinity } = options;
  const began = clock.monotonic();
  const lockedFor = Math.min(patience, LOCKED_MS);
  let last = start;
  let still = 0;
  /** Since when locks are in the way and nobody gets past them. */
  let locked: number | null = null;
  let unknown = 0;
  let tries = 0;
  const bound = () => Math.min(1000, 5 * 2 ** Math.min(tries++, 8));
  return {
    async again(place, pushed, signal, asked = clock.monotonic()) {
      const fault = faultOf(pushed);
      const moved = place !== last;
      last = place;
      if (fault && isLocked(fault)) {
        options.onFault?.(fault);
        locked = moved ? asked : locked ?? (tries === 0 && patience < Infinity ? began : asked);
        // Nothing was sent, or nothing was done: that is no riddle.
        if (clock.monotonic() - locked >= lockedFor) throw fault;
        await clock.sleep((0.25 + clock.random()) * bound(), signal);
        return;
      }
      locked = null;
      still = moved ? 0 : still + 1;
      unknown = pushed.status === "unknown" ? unknown + 1 : 0;
      if (still >= STUCK_AFTER) {
        throw new AgentqError(
          "origin-stuck",
          `${what}: the origin refuses every push because a ref has moved, and none has`,
        );
      }
      if (fault) options.onFault?.(fault);
      const late = unknown > 0 && clock.monotonic() - began > patience;
      const final = fault !== undefined && isTurnedDown(fault) && !fault.retryable;
      if (unknown >= UNKNOWN_AFTER || late || final) {
        if (fault && isTurnedDown(fault) && !isOfGateway(fault)) throw turnedDown(fault, what);
        throw new AgentqError(
          "push-unknown",
          `${what}: the origin's answer was lost again and again${
            fault ? `: ${wordsOf(fault)}` : ""
          }`,
          fault ? { cause: fault, ...(fault.details && { details: fault.details }) } : {},
        );
      }
      const busy = fault && isTurnedDown(fault) ? BUSY_MS : 0;
      const wanted = Math.min(wantedPause(fault) ?? busy, MAX_WANTED_MS);
      await clock.sleep(Math.max(wanted, clock.random() * bound()), signal);
    },
  };
}
