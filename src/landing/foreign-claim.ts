/**
 * A submission's record that a queue command has taken (`agentq queue dequeue submissions`, by hand) from the store in
 * which this machine keeps them. That is no delivery: nothing comes of it by itself.
 */
import { AgentqError } from "../errors.ts";
import { isNumber, isText, shape } from "../platform/shapes.ts";
import { shellWord } from "../store/shell-word.ts";
import type { Json } from "../store/types.ts";

/** What agentq's queues note on a claim: in whose name, since when (Unix ms), for how long. */
interface LeaseNote {
  readonly owner: string;
  readonly wall: number;
  readonly ms: number;
}

const isLeaseNote = shape({ owner: isText, wall: isNumber, ms: isNumber });
/** A command's, which has ended: only time counts. A worker renews its lease, and is left alone. */
const COMMAND = /^c~([^~]*)~/;

/** Milliseconds that are left of a command's lease; null for any other note. */
export function leaseLeft(note: Json | null, now: number): number | null {
  if (!isLeaseNote(note)) return null;
  const { owner, wall, ms } = note as unknown as LeaseNote;
  // A clock that was set back would hold it for as long as that.
  return COMMAND.test(owner) ? ms - Math.abs(now - wall) : null;
}

/**
 * What has taken the record `id` of the store in `root`, named by `what`, and the command that gives it back; with
 * `details.leaseLeftMs` where it is known for how long.
 */
export function takenBy(
  note: Json | null,
  { id, what }: { readonly id: string; readonly what: string },
  root: string,
  now = Date.now(),
): AgentqError {
  const taken = (who: string, hint: string, details: Record<string, unknown> = {}) =>
    new AgentqError(
      "submission-busy",
      `${who} has taken ${what} out of this machine's submissions, and delivers nothing`,
      { hint, details: { record: id, ...details } },
    );
  const queue = (command: string) =>
    `agentq queue ${command} --backend ${shellWord(`store:${root}`)}`;
  const { owner } = (isLeaseNote(note) ? note : { owner: "" }) as unknown as LeaseNote;
  const left = leaseLeft(note, now);
  if (left !== null) {
    const name = COMMAND.exec(owner)![1]!;
    const seconds = Math.max(0, Math.ceil(left / 1000));
    return taken(
      "a command (queue dequeue)",
      `Give it back: ${
        queue(`requeue submissions ${id} --owner ${shellWord(name)}`)
      }; or try again ` +
        `in ${seconds} s, when that lease has run out.`,
      { leaseLeftMs: Math.max(0, left) },
    );
  }
  if (owner.startsWith("w~")) {
    return taken("a worker", `End that worker, then run: ${queue("recover submissions")}`);
  }
  return taken(
    "another program",
    `Make sure that it has ended, then run: ${queue("recover submissions --stale 0")}`,
  );
}
