/** What scripts answer, and what receipts are as their arguments. */
import { Buffer } from "node:buffer";
import * as z from "zod/mini";
import type { DeadLetter, Delivery, Receipt, Settlement } from "../../contract.ts";
import { callerPrefix } from "../../owner.ts";
import { decodeEnvelope, textOf } from "../../payload.ts";
import type { Argument } from "./call.ts";
import type { Reply } from "./connection.ts";
import { ofOtherType } from "./faults.ts";

export interface Unreadable {
  readonly receipt: Receipt;
  readonly problem: string;
}

/** What a script has taken: four values a delivery. */
export function read(
  taken: Reply[],
  owner: string,
): { deliveries: Delivery[]; unreadable: Unreadable[] } {
  const [deliveries, unreadable]: [Delivery[], Unreadable[]] = [[], []];
  for (const [idBytes, payload, number, attempts] of groups(taken, 4)) {
    const id = text(idBytes);
    const lease = `${text(number)}.${owner}`;
    const decoded = Array.isArray(payload)
      ? { problem: foreignPayload(payload) }
      : decodeEnvelope(payload as Uint8Array | null);
    if ("data" in decoded) {
      deliveries.push({ id, data: decoded.data, lease, attempts: Number(attempts) });
    } else unreadable.push({ receipt: { id, lease }, problem: decoded.problem });
  }
  return { deliveries, unreadable };
}

function foreignPayload([key, type]: Reply[]): string {
  return `the payload can't be read: ${ofOtherType(text(key), "string", text(type))}`;
}

export const OUTCOMES: readonly Settlement[] = ["stale", "done", "superseded"];

export function receiptArguments(receipt: Receipt): Argument[] {
  return "lease" in receipt
    ? [receipt.id, "lease", receipt.lease]
    : [receipt.id, "owner", callerPrefix(receipt.owner)];
}

const factsSchema = z.object({ id: z.string(), reason: z.string(), attempts: z.number() });

export function deadLetter(queue: string, [name, facts, payload, score]: Reply[]): DeadLetter {
  const failedId = text(name);
  const parsed = factsSchema.safeParse(parseJson(text(facts)));
  const known = parsed.success ? parsed.data : { id: failedId, reason: "not known", attempts: 0 };
  const raw = payload as Uint8Array | null;
  const decoded = decodeEnvelope(raw);
  const readable = "data" in decoded;
  return {
    failedId,
    queue,
    ...known,
    failedAt: score === null ? null : Math.floor(Number(text(score)) / 1000),
    data: readable ? decoded.data : null,
    raw: readable || raw === null ? null : textOf(raw) ?? new TextDecoder().decode(raw),
  };
}

function parseJson(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return null;
  }
}

export function text(reply: Reply | undefined): string {
  if (!(reply instanceof Uint8Array)) return String(reply ?? "");
  return Buffer.from(reply.buffer, reply.byteOffset, reply.byteLength).toString("utf8");
}

/** A flat answer as rows of `width`. */
export function groups(reply: Reply[], width: number): Reply[][] {
  const rows: Reply[][] = [];
  for (let i = 0; i + width <= reply.length; i += width) rows.push(reply.slice(i, i + width));
  return rows;
}
