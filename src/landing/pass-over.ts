/**
 * What becomes of a ticket whose publication the origin refuses.
 *
 * Such a refusal may be about the ticket (a hook that looks into files), about who pushes (a protected
 * branch, a lander without the right) or about the time (a freeze), and its words are text for people.
 * One thing tells: a later ticket that the same lander may land at the same moment. So a ticket is never
 * refused over it but in the very push that lands one behind it:
 *
 *     refused ─▶ counted in the lock chain, fewer than `attempts`? ──yes──▶ this lander ends with the error
 *                  │ no
 *                  ▼
 *     the next ticket behind it: merge, gate, verify ─▶ then, in quick succession:
 *                  push it alone                            ──won──▶ landed: it was the time
 *                  push [its refusal, the next one's landing] ─won─▶ it was the ticket
 *                  └── refused: the same with one more behind it, MAX_BEHIND of them at most, then the error
 *
 * Where nothing behind it is let through either, or nothing is behind it, it stays queued: nothing good is
 * thrown away in a freeze, and `agentq cancel` takes out what the origin will never take.
 *
 * The branch may move by that push and `done` not (half-state.ts): an entry of the lock before it says for
 * which ticket, and the next lander records what the push would have recorded.
 */
import { AgentqError } from "../errors.ts";
import type { Oid } from "../git/types.ts";
import { numberOf } from "./chain.ts";
import type { Control } from "./control.ts";
import { judge } from "./judge.ts";
import type { LanderOptions } from "./lander-options.ts";
import type { HeldLock } from "./held-lock.ts";
import { type Judged, publish, type Published, type Refused } from "./publish.ts";
import type { Queue, Snapshot } from "./snapshot.ts";

/** How many tickets behind a refused one are tried in its place in one run. */
export const MAX_BEHIND = 3;

/** So much of the origin's words is carried along in the lock chain. */
const MAX_WHY = 400;

export interface RefusedTicket {
  readonly snapshot: Snapshot;
  /** The commit that the queue landed last. */
  readonly landed: Oid | null;
  readonly judged: Judged;
  readonly error: AgentqError;
  /** It was refused in this run before, on another tip: counted then, and not tried again by itself. */
  readonly counted: boolean;
}

/**
 * Counts the refusal, and passes the ticket over where one behind it lands.
 * @throws `push-refused`, the ticket left as it is
 */
export async function onRefusal(
  queue: Queue,
  held: HeldLock,
  refused: RefusedTicket,
  options: LanderOptions,
): Promise<Exclude<Published, Refused>> {
  const { snapshot, judged, error, counted } = refused;
  const ticket = judged.ticket.message.ticket;
  const before = held.control().refusals;
  const count = (before?.ticket === ticket ? before.count : 0) + (counted ? 0 : 1);
  const why = error.message.slice(0, MAX_WHY);
  held.setControl({ ...held.control(), refusals: { ticket, count, why } });
  if (count >= options.attempts && snapshot.unacked > 1) {
    options.onProgress?.(
      `ticket ${ticket}: the origin refused it ${times(count)}; trying what is behind it`,
    );
    const outcome = await passOver(queue, held, refused, options);
    if (outcome.status !== "refused") return outcome;
  }
  const { attempts } = options;
  throw stuck(queue, { ticket, count, behind: snapshot.unacked - 1, attempts, error });
}

async function passOver(
  queue: Queue,
  held: HeldLock,
  { snapshot, landed, judged, error }: RefusedTicket,
  options: LanderOptions,
): Promise<Published> {
  const { signal } = options;
  const line: Judged[] = [judged];
  /** Why each that passed may not be published. */
  const errors = new Map<Judged, AgentqError>([[judged, error]]);
  const lastBehind = Math.min(snapshot.next + MAX_BEHIND, numberOf(snapshot.queue));
  for (let number = snapshot.next + 1; number <= lastBehind; number++) {
    const ticket = await queue.chains.find("queue", snapshot.queue!, number, signal);
    const startedAt = options.clock.wall();
    const outcome = await judge(queue, held, { snapshot, landed, ticket }, options);
    // A lock that is lost shows as soon as the refs are read again.
    if (outcome === "again" || outcome === "lost") return { status: "again" };
    if (outcome.kind === "stop") break;
    line.push({ ticket, verdict: outcome.verdict, startedAt });
    if (outcome.verdict.kind !== "landed") continue;
    for (let first = 0; first < line.length; first++) {
      if (line[first]!.verdict.kind !== "landed") continue;
      const passed = line.slice(0, first).map((one) => inPlaceOf(one, line[first]!, errors));
      const published = await publish(queue, held, {
        snapshot,
        line: [...passed, line[first]!],
        lastLanded: landed,
        options,
      });
      if (published.status !== "refused") return published;
      errors.set(line[first]!, published.error);
    }
  }
  return { status: "refused", error };
}

/** The same as a refusal, where it passed and the origin doesn't take it. */
function inPlaceOf(
  one: Judged,
  lands: Judged,
  errors: ReadonlyMap<Judged, AgentqError>,
): Judged {
  if (one.verdict.kind !== "landed") return one;
  const error = errors.get(one)!;
  return {
    ...one,
    verdict: { kind: "failed", error: passedOver(lands.ticket.message.ticket, error.message) },
  };
}

function passedOver(by: number, why: string): AgentqError {
  return new AgentqError("push-refused", why, {
    hint:
      `Ticket ${by}, behind it, was let through in the push that records this, so the branch is open: ` +
      "change what the origin objects to and submit again.",
  });
}

/**
 * What a push left unrecorded that passed tickets over and was applied by halves: the branch is where the
 * lock's newest entry says that a ticket behind the next one lands. Null where there is no such state.
 */
export async function halfPassedOver(
  queue: Queue,
  { snapshot, landed, control }: {
    readonly snapshot: Snapshot;
    readonly landed: Oid | null;
    readonly control: Control;
  },
  options: LanderOptions,
): Promise<Judged[] | null> {
  const { published } = control;
  const { tip, next } = snapshot;
  if (published === null || tip === null || tip === landed || published.landed !== tip) return null;
  const last = published.ticket;
  if (last <= next || last > next + MAX_BEHIND || last > numberOf(snapshot.queue)) return null;
  const startedAt = options.clock.wall();
  const line: Judged[] = [];
  for (let number = next; number < last; number++) {
    const ticket = await queue.chains.find("queue", snapshot.queue!, number, options.signal);
    // What the branch has was not passed over: `done` was set back to before it.
    const { candidate } = ticket.message;
    if (await options.workshop.contains(tip, candidate, options.signal)) return null;
    const why = control.refusals?.ticket === number
      ? control.refusals.why
      : "the origin refused the push, or the checks did";
    const verdict = control.cancelled.includes(number)
      ? { kind: "cancelled" as const }
      : { kind: "failed" as const, error: passedOver(last, why) };
    line.push({ ticket, startedAt, verdict });
  }
  const ticket = await queue.chains.find("queue", snapshot.queue!, last, options.signal);
  const verdict = { kind: "recovered" as const, tip: published.tip, landed: tip, by: null };
  return [...line, { ticket, startedAt, verdict }];
}

function stuck(queue: Queue, refusal: {
  readonly ticket: number;
  readonly count: number;
  readonly behind: number;
  readonly attempts: number;
  readonly error: AgentqError;
}): AgentqError {
  const { ticket, count, behind, attempts, error } = refusal;
  const waits = behind === 0 ? "" : `, and ${behind} behind it ${behind === 1 ? "waits" : "wait"}`;
  const tried = count >= attempts
    ? behind === 0
      ? "Nothing is behind it that could show whether it is the ticket or the branch."
      : "None behind it was let through either, so it may well be the branch or this lander."
    : `After ${attempts} refusals it gives way to one behind it, should that be let through.`;
  return new AgentqError(
    "push-refused",
    `ticket ${ticket} passed and could not be published (refused ${
      times(count)
    }): ${error.message}`,
    {
      cause: error,
      hint: `It stays queued${waits}, until a lander comes whose push the origin takes. ${tried} ` +
        `The origin's words say why; agentq cancel ${ticket}${queue.options ?? ""} takes it out.`,
      details: { ...error.details, refused: { ticket, count, behind } },
    },
  );
}

const times = (count: number) => (count === 1 ? "once" : `${count} times`);
