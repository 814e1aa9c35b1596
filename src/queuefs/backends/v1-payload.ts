/**
 * What v1 keeps of a message: a JSON value, in a file of at most 16 MiB. Text that is no JSON is kept as a
 * JSON string; a value comes back as JSON text without its spelling. What would come back as another
 * value, or couldn't be read back at all, is refused before anything is written.
 */
import { Buffer } from "node:buffer";
import { AgentqError, isAgentqError } from "../../errors.ts";
import { readPlainFile } from "../../platform/plain-file.ts";
import type { Json } from "../../store/mod.ts";
import { bytesOf, textOf } from "../payload.ts";

/** The largest file that fs-safe reads back. */
export const MAX_FILE_BYTES = 16 * 1024 * 1024;

/** Throws `payload-invalid`, `limit-exceeded`. */
export function toV1Payload(data: Uint8Array): Json {
  const text = textOf(data);
  if (text === null) throw notKept("v1 queues keep JSON, and these bytes are no text");
  const payload = valueOf(text);
  // As fs-safe writes it: indented, so that nesting can make it many times longer.
  const bytes = Buffer.byteLength(JSON.stringify(payload, null, 2));
  if (bytes > MAX_FILE_BYTES) {
    throw new AgentqError(
      "limit-exceeded",
      `the payload takes ${bytes} bytes as v1 writes it; a v1 queue takes at most ${MAX_FILE_BYTES}`,
      { hint: "Use the sqlite or redis backend for such payloads." },
    );
  }
  return payload;
}

export function fromV1Payload(payload: Json): Uint8Array {
  return bytesOf(typeof payload === "string" ? payload.toWellFormed() : JSON.stringify(payload));
}

function valueOf(text: string): Json {
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch {
    return text;
  }
  // A text that is a JSON string already would come back without its quotes.
  if (typeof value === "string") return text;
  // Of two members of one name the last would be kept.
  if (membersIn(text) !== membersIn(JSON.stringify(value))) {
    throw notKept("v1 queues keep JSON, and an object here has two members of one name");
  }
  for (const number of numbersIn(text)) {
    if (decimal(number) !== decimal(String(Number(number)))) {
      throw notKept(
        `v1 queues keep JSON, and the number ${number.slice(0, 80)} can't be kept exactly`,
      );
    }
  }
  return value;
}

function notKept(message: string): AgentqError {
  return new AgentqError("payload-invalid", message, {
    hint: "Use a backend that keeps bytes as they are: store:DIR, sqlite:FILE or redis://HOST.",
  });
}

/** Where the string ends that begins at `at`. Not by a regex: long strings would exhaust its stack. */
function stringEnd(text: string, at: number): number {
  for (at++; text[at] !== '"'; at++) if (text[at] === "\\") at++;
  return at;
}

/** How many members the objects of a JSON text have in all. */
function membersIn(text: string): number {
  let count = 0;
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '"') at = stringEnd(text, at);
    else if (text[at] === ":") count++;
  }
  return count;
}

/** The numbers of a JSON text as they are spelt. */
function* numbersIn(text: string): Generator<string> {
  const number = /-?\d[\d.eE+-]*/y;
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '"') {
      at = stringEnd(text, at);
      continue;
    }
    number.lastIndex = at;
    const found = number.exec(text);
    if (found === null) continue;
    yield found[0];
    at += found[0].length - 1;
  }
}

/** The same text for the same decimal number, however it is spelt. */
function decimal(number: string): string {
  const parts = /^-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(number);
  if (parts === null) return number;
  const [, whole = "", fraction = "", exponent = "0"] = parts;
  const digits = `${whole}${fraction}`.replace(/^0+/, "");
  const significant = digits.replace(/0+$/, "");
  const sign = number.startsWith("-") ? "-" : "";
  if (significant === "") return `${sign}0`;
  const power = Number(exponent) - fraction.length + digits.length - significant.length;
  return `${sign}${significant}e${power}`;
}

/** v1 has no commit for several: which of them are in the queue, for whoever tries again. */
export function inPart(error: unknown, enqueued: readonly string[], all: number): unknown {
  if (!isAgentqError(error)) return error;
  const { code, message, details } = error;
  const next = enqueued.length + 1;
  return new AgentqError(code, `${enqueued.length} of ${all} messages are enqueued: ${message}`, {
    cause: error,
    hint:
      `Those are in the queue (details.enqueued of --json names them): put right what failed, then ` +
      `enqueue only from message ${next} on.`,
    details: { ...details, enqueued },
  });
}

/** What a message's file holds, or null where that is no JSON or the file is none that v1 would read. */
export function readJson(path: string, alias?: string): Uint8Array | null {
  const limit = MAX_FILE_BYTES;
  const bytes = readPlainFile(path, alias === undefined ? { limit } : { limit, alias });
  try {
    return bytes && fromV1Payload(JSON.parse(new TextDecoder().decode(bytes)) as Json);
  } catch {
    return null;
  }
}
