/** A submission as it is recorded: the payload, the claim's note beside it, and whose claim that is. */
import { Buffer } from "node:buffer";
import type { Oid } from "../git/types.ts";
import { isProcessAlive, type ProcessIdentity, processIdentity } from "../platform/host.ts";
import {
  type Check,
  exactly,
  isNumber,
  isOid,
  isText,
  listOf,
  maybe,
  nullable,
  optional,
  shape,
} from "../platform/shapes.ts";
import type { Claim, Json } from "../store/types.ts";
import type { Draft } from "./enqueue.ts";
import { leaseLeft } from "./foreign-claim.ts";
import { MAX_COMMAND_BYTES, MAX_LIST_BYTES, MAX_TITLE_BYTES } from "./messages.ts";
import { pushing } from "./under-way.ts";

/** Longer than any submission's id. */
const MAX_NAME_BYTES = 200;

/** One submission of this machine that has no result yet, as far as is known here. */
export interface SubmissionRecord {
  readonly v: 1;
  readonly submission: string;
  /** The git directory of the clone it was submitted from. */
  readonly repository: string;
  /** That directory, by whatever path it is reached, and the mount in which the path leads to it (mount.ts). */
  readonly clone?: string | undefined;
  readonly view?: string | undefined;
  /** Name or url of the remote, as given, without credentials. */
  readonly remote: string;
  /** The origin as it may be printed. */
  readonly url: string;
  readonly namespace: string;
  /** null: the origin's HEAD, which wasn't known. */
  readonly branch: string | null;
  /** The branch was the origin's HEAD, or nobody named it. */
  readonly isDefault?: boolean;
  readonly candidate: Oid;
  readonly submitter: string;
  readonly submittedAt: number;
  readonly verifyCmd: string | null;
  readonly verifyTimeout: number;
  readonly title: string | null;
  readonly drops: readonly string[];
  /** Absent: nothing was ever pushed. null: the queue didn't exist. */
  readonly since?: Oid | null;
  /** The branch is to be begun where the origin doesn't have it. */
  readonly createBranch?: boolean;
  /** Accepted as kept on this machine: whoever comes next delivers it, also after attempts that failed. */
  readonly kept?: boolean;
  /** The process that recorded it to push it itself. */
  readonly by?: Json;
  /** Who had it, to deliver it, when it was listed. Not written. */
  readonly holder?: Json;
  /** Once it is known. */
  readonly ticket: number | null;
}

/** What no ticket could hold (messages.ts) was never recorded: somebody changed it. */
const upTo = (bytes: number): Check => (value) =>
  typeof value === "string" && Buffer.byteLength(value) <= bytes;
const isDrops = listOf(isText);

const isShapeOfRecord = shape({
  v: exactly(1),
  submission: upTo(MAX_NAME_BYTES),
  repository: isText,
  remote: isText,
  url: isText,
  namespace: isText,
  branch: nullable(isText),
  candidate: isOid,
  submitter: upTo(MAX_TITLE_BYTES),
  submittedAt: isNumber,
  verifyCmd: nullable(upTo(MAX_COMMAND_BYTES)),
  verifyTimeout: (value) => isNumber(value) && (value as number) >= 0,
  title: nullable(upTo(MAX_TITLE_BYTES)),
  drops: (value) => isDrops(value) && upTo(MAX_LIST_BYTES)((value as string[]).join("\n")),
  since: maybe(isOid),
  isDefault: optional((value) => typeof value === "boolean"),
  kept: optional((value) => typeof value === "boolean"),
  createBranch: optional((value) => typeof value === "boolean"),
  clone: optional(isText),
  view: optional(isText),
});

/** Whether a message of that name holds a record, as it was written. */
function isRecord(name: string, value: unknown): value is SubmissionRecord {
  return isShapeOfRecord(value) && nameOf(value as SubmissionRecord) === name;
}

/** A record's name in the store begins with its candidate, so that others need not be read. */
export function nameOf(record: { candidate: Oid; submission: string }): string {
  return `${record.candidate.slice(0, 16)}.${record.submission}`;
}

/** The record in a message, with the ticket from its claim; null for a damaged one and one that a newer agentq wrote. */
export function recordOf(claim: Claim): SubmissionRecord | null {
  if (claim.unreadable) return null;
  let record: unknown;
  try {
    record = claim.json();
  } catch {
    return null;
  }
  return isRecord(claim.receipt.id, record) ? { ...record, ticket: ticketIn(claim.owner) } : null;
}

/** The ticket in a claim's note. */
export function ticketIn(note: Json | null): number | null {
  const ticket = (note as { ticket?: unknown } | null)?.ticket;
  return Number.isSafeInteger(ticket) ? ticket as number : null;
}

/** This process, as the note of what it holds. */
export function owner(now = Date.now()): Json {
  return { ...processIdentity(), at: now };
}

const isIdentity = shape({
  pid: isNumber,
  startTime: nullable(isText),
  pidNamespace: nullable(isText),
  bootId: nullable(isText),
  host: isText,
});

function identityIn(note: Json | null): ProcessIdentity | null {
  return isIdentity(note) ? note as unknown as ProcessIdentity : null;
}

/** Held by a run of agentq that delivers it, or has delivered it. */
export function isDelivery(note: Json | null): boolean {
  return identityIn(note) !== null || ticketIn(note) !== null;
}

export function isOurs(note: Json | null): boolean {
  const found = identityIn(note);
  const me = processIdentity();
  return found !== null && found.pid === me.pid && found.startTime === me.startTime &&
    found.bootId === me.bootId && found.pidNamespace === me.pidNamespace;
}

/** True while the process that recorded a submission may be pushing it still. */
export function isUnderWay({ submission, by = null }: SubmissionRecord): boolean {
  if (isOurs(by)) return pushing.has(submission);
  const found = identityIn(by);
  return found !== null && isProcessAlive(found) === "alive";
}

/** True while the process that recorded a submission, or one that delivers it, may be pushing it. */
export function isBeingSent(record: SubmissionRecord): boolean {
  const { holder = null } = record;
  return isUnderWay(record) || (isDelivery(holder) && !isFree(holder));
}

/** What is said of a record of a later format. */
export const NEWER = "a newer agentq wrote it";

/** Why a message is no record that can be used here; null: it is one. */
export function unusable(claim: Claim): string | null {
  if (claim.unreadable) return claim.unreadable.message;
  let version: unknown;
  try {
    const record = claim.json();
    if (isRecord(claim.receipt.id, record)) return null;
    version = (record as { v?: unknown } | null)?.v;
  } catch (error) {
    return (error as Error).message;
  }
  return typeof version === "number" && version > 1 ? NEWER : "it isn't a submission's record";
}

/** After so long what a process holds of which nothing can be told is free, in milliseconds. */
const HELD_MS = 60_000;

/**
 * True for what is held by a process that is gone, or by one of another container or another boot, of which nobody
 * here can tell, for a while; and for what a queue command took, once its lease has run out. Clocks may be wrong about that while: should it live, it finds that it no longer holds it
 * before it pushes, or it pushes under the submission's id, and the queue has one ticket with that.
 */
export function isFree(note: Json | null, now = Date.now()): boolean {
  const found = identityIn(note);
  if (found === null) return (leaseLeft(note, now) ?? 1) <= 0;
  const liveness = isProcessAlive(found);
  if (liveness !== "unknown") return liveness === "gone";
  const { at } = note as { at?: unknown };
  return typeof at !== "number" || Math.abs(now - at) > HELD_MS;
}

/** The ticket that a record asks for. */
export function draftOf(record: SubmissionRecord): Draft {
  return {
    candidate: record.candidate as Oid,
    submitter: record.submitter,
    verifyCmd: record.verifyCmd,
    verifyTimeout: record.verifyTimeout,
    submission: record.submission,
    submittedAt: record.submittedAt,
    title: record.title,
    drops: record.drops,
  };
}
