/** Which names queues and messages may have. One rule for every backend, checked before any of them. */
import { AgentqError } from "../errors.ts";

/** The control names: the last component of a path that is an operation, never a queue. */
export const CONTROL_NAMES = [
  "enqueue",
  "dequeue",
  "peek",
  "size",
  "status",
  "messages",
  "clear",
  "ack",
] as const;
export type ControlName = typeof CONTROL_NAMES[number];

const SEGMENT = /^[A-Za-z0-9_-](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?$/;
const MAX_SEGMENTS = 8;

export function isControlName(name: string): name is ControlName {
  return (CONTROL_NAMES as readonly string[]).includes(name);
}

/**
 * Returns `name` when it is a queue name: 1 to 8 segments joined by `/`, each 1–100 characters of
 * `[A-Za-z0-9._-]` without a dot at either end, the last not a control name. Throws
 * `queue-name-invalid`.
 */
export function checkQueueName(name: string): string {
  const problem = queueNameProblem(name);
  if (problem !== null) {
    throw new AgentqError("queue-name-invalid", `${quoted(name)} is no queue name: ${problem}`);
  }
  return name;
}

/** True for a name that {@link checkQueueName} accepts. */
export function isQueueName(name: string): boolean {
  return queueNameProblem(name) === null;
}

function queueNameProblem(name: string): string | null {
  if (name === "") return "it is empty";
  const segments = name.split("/");
  if (segments.length > MAX_SEGMENTS) return `it has more than ${MAX_SEGMENTS} segments`;
  for (const segment of segments) {
    if (segment === "") return "it has an empty segment";
    if (!SEGMENT.test(segment)) {
      return "each segment is 1 to 100 characters of A-Z a-z 0-9 . _ - without a dot at either end";
    }
  }
  const last = segments.at(-1)!;
  return isControlName(last) ? `it ends in the reserved word ${last}` : null;
}

/** Returns `id` when a message may be given it: one segment as in a queue name. Throws `message-id-invalid`. */
export function checkMessageId(id: string): string {
  if (SEGMENT.test(id)) return id;
  throw new AgentqError(
    "message-id-invalid",
    `${
      quoted(id)
    } is no message id: it takes 1 to 100 characters of A-Z a-z 0-9 . _ - without a dot at either end`,
  );
}

/** True when `queue` is `tree` or lies below it. */
export function isInTree(queue: string, tree: string): boolean {
  return queue === tree || queue.startsWith(`${tree}/`);
}

/** Foreign text as it may stand in a message: escaped, and short. */
export function quoted(text: string): string {
  const shown = text.length > 80 ? `${text.slice(0, 80)}…` : text;
  return JSON.stringify(shown).replace(
    /[\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
