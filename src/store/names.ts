/** Queue names and IDs: portable everywhere, and never part of a path. */
import { AgentqError } from "../errors.ts";

const SEGMENT = /^(?!\.)[a-z0-9._-]{1,100}(?<!\.)$/;
const WINDOWS_DEVICE = /^(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|$)/;
const MAX_SEGMENTS = 8;

/** Whether `text` is one portable segment: what an ID is and a queue name is made of. */
export function isPortableSegment(text: string): boolean {
  return SEGMENT.test(text) && !WINDOWS_DEVICE.test(text);
}

/** Whether `text` is 1 to 8 portable segments joined by slashes. */
export function isQueueName(text: string): boolean {
  const segments = text.split("/");
  return segments.length <= MAX_SEGMENTS && segments.every(isPortableSegment);
}

/** Throws `name-invalid` unless `queue` is a queue name. */
export function assertQueueName(queue: string): void {
  if (typeof queue === "string" && isQueueName(queue)) return;
  throw new AgentqError("name-invalid", `not a queue name: ${JSON.stringify(queue)}`, {
    hint: "Queue names are 1 to 8 parts joined by “/”, each 1–100 characters of a–z, 0–9, dot, " +
      "dash and underscore, with no dot first or last and no Windows device name.",
  });
}

/** Throws `name-invalid` unless `id` is a message (or dead letter) ID. */
export function assertId(id: string): void {
  if (typeof id === "string" && isPortableSegment(id)) return;
  throw new AgentqError("name-invalid", `not an ID: ${JSON.stringify(id)}`, {
    hint: "IDs are 1–100 characters of a–z, 0–9, dot, dash and underscore, with no dot first or " +
      "last and no Windows device name.",
  });
}
