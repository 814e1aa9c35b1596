/** `state.json` and `format.json` as text: written, and read with everything in them validated. */
import { AgentqError } from "../errors.ts";
import {
  type Check,
  exactly,
  isAnything,
  isCount,
  isText,
  nullable,
  optional,
  strictShape,
  textLike,
  whereWrong,
} from "../platform/shapes.ts";
import { duplicateName, occurrences } from "./duplicates.ts";
import { isEncoding } from "./encoding.ts";
import { PROTOCOL, TOKEN_PATTERN, VERSION } from "./layout.ts";
import { isPortableSegment, isQueueName } from "./names.ts";
import {
  emptyState,
  type FailedRecord,
  putSlot,
  type QueueEntry,
  registerQueue,
  type SlotRun,
  type StoreState,
  tidyRuns,
} from "./state.ts";
import type { Reference, Revision, Slot } from "./types.ts";

const token = textLike(TOKEN_PATTERN);
const decimal = textLike(/^(?:0|[1-9][0-9]{0,38})$/);

const isReference = strictShape({
  generation: token,
  object: token,
  seq: decimal,
  attempts: isCount,
  ordinal: optional(isCount),
  encoding: optional(isEncoding),
  deliveries: optional(isCount),
  owner: isAnything,
});
const isSlot = strictShape({ pending: nullable(isReference), claimed: nullable(isReference) });
const isFailed = strictShape({
  queue: isText,
  id: isText,
  generation: token,
  object: token,
  reason: isText,
  attempts: optional(isCount),
  encoding: optional(isEncoding),
  deliveries: optional(isCount),
});
const isState = strictShape({
  protocol: exactly(PROTOCOL),
  version: exactly(VERSION),
  storeId: token,
  revision: decimal,
  queues: isAnything,
  failed: isAnything,
});
const isFormat = strictShape({
  protocol: exactly(PROTOCOL),
  version: exactly(VERSION),
  storeId: token,
  openModes: optional(exactly(true)),
});

export interface StoreFormat {
  readonly storeId: string;
  /** Created with --allow-open-modes: permission bits and owners are not checked. */
  readonly openModes: boolean;
}

export function serializeFormat(format: StoreFormat): string {
  const { storeId, openModes } = format;
  return JSON.stringify({
    protocol: PROTOCOL,
    version: VERSION,
    storeId,
    ...(openModes ? { openModes } : {}),
  }) + "\n";
}

/** state.json's bytes, in pieces: runs of slots that haven't changed are as they were. */
export function encodeState(state: StoreState): Uint8Array[] {
  const parts: Uint8Array[] = [];
  let text = `{"protocol":"${PROTOCOL}","version":${VERSION},"storeId":"${state.storeId}",` +
    `"revision":"${state.revision}",\n"queues":{`;
  const append = (json: Uint8Array) => {
    if (text !== "") parts.push(utf8.encode(text));
    text = "";
    parts.push(json);
  };
  let first = true;
  for (const [name, entry] of state.queues) {
    text += `${first ? "" : ",\n"}${JSON.stringify(name)}:{`;
    first = false;
    tidyRuns(entry);
    entry.runs.forEach((run, index) => {
      if (index > 0) text += ",\n";
      append(run.json ??= encodeRun(entry, run));
    });
    text += "}";
  }
  text += `},\n"failed":`;
  append(state.failedJson ??= encodeFailed(state.failed));
  parts.push(CLOSING);
  return parts;
}

const utf8 = new TextEncoder();
const CLOSING = utf8.encode("}\n");

function encodeRun(entry: QueueEntry, run: SlotRun): Uint8Array {
  const slots: string[] = [];
  for (const id of run.ids) {
    const { pending, claimed } = entry.slots.get(id)!;
    slots.push(`${JSON.stringify(id)}:${JSON.stringify({ pending, claimed })}`);
  }
  return utf8.encode(slots.join(",\n"));
}

function encodeFailed(failed: Map<string, FailedRecord>): Uint8Array {
  const records: string[] = [];
  for (const [id, record] of failed) {
    records.push(`${JSON.stringify(id)}:${JSON.stringify(record)}`);
  }
  return utf8.encode(`{${records.join(",\n")}}`);
}

/** Reads format.json. Errors: `init-incomplete`, `version-unsupported`, `store-invalid`. */
export function parseFormat(text: string, path: string): StoreFormat {
  const { storeId, openModes } = validated<{ storeId: string; openModes?: true }>(
    isFormat,
    parseDocument(text, path),
    path,
  );
  return { storeId, openModes: openModes === true };
}

interface StateDocument {
  readonly storeId: string;
  readonly revision: Revision;
  readonly queues: unknown;
  readonly failed: unknown;
}

/** Reads state.json. Errors as {@link parseFormat}. */
export function parseState(text: string, path: string): StoreState {
  const document = validated<StateDocument>(isState, parseDocument(text, path), path);
  const state = emptyState(document.storeId);
  state.revision = document.revision;
  const seen: SeenTokens = { path, generations: new Set(), objects: new Set() };
  for (const [queue, slots] of entriesOf(document.queues, path, "queues")) {
    if (!isQueueName(queue)) throw invalid(path, `queue name ${JSON.stringify(queue)}`);
    const entry = registerQueue(state, queue);
    for (const [id, value] of entriesOf(slots, path, `queue ${queue}`)) {
      if (!isPortableSegment(id)) throw invalid(path, `ID ${JSON.stringify(id)} in ${queue}`);
      const slot = validated<Slot>(isSlot, value, path, `${queue}/${id}`);
      const pending = toReference(slot.pending, seen, state.revision);
      const claimed = toReference(slot.claimed, seen, state.revision);
      if (pending === null && claimed === null) {
        throw invalid(path, `${queue}/${id} refers to nothing`);
      }
      putSlot(entry, id, { pending, claimed });
      state.slots++;
    }
  }
  for (const [failedId, value] of entriesOf(document.failed, path, "failed")) {
    const record = validated<FailedRecord>(isFailed, value, path, `failed/${failedId}`);
    if (!isPortableSegment(failedId) || !isPortableSegment(record.id)) {
      throw invalid(path, `failed ID ${JSON.stringify(failedId)}`);
    }
    if (!isQueueName(record.queue)) throw invalid(path, `failed/${failedId} names no queue`);
    once(seen, record.generation, record.object);
    state.failed.set(failedId, record);
  }
  // A name that is there twice hides a reference, and `gc` would take that one's payload for an orphan.
  // As a state is written here each has a generation; only where the two differ is it looked at closely.
  if (occurrences(text, '"generation":"') !== seen.generations.size) {
    const twice = duplicateName(text);
    if (twice !== null) throw invalid(path, `${JSON.stringify(twice)} twice in one object`);
  }
  return state;
}

interface SeenTokens {
  readonly path: string;
  readonly generations: Set<string>;
  readonly objects: Set<string>;
}

/** A token that two references share would let one release the other's payload. */
function once(seen: SeenTokens, generation: string, object: string): void {
  if (seen.generations.has(generation)) throw invalid(seen.path, `generation ${generation} twice`);
  if (seen.objects.has(object)) throw invalid(seen.path, `object ${object} twice`);
  seen.generations.add(generation);
  seen.objects.add(object);
}

function toReference(
  value: Reference | null,
  seen: SeenTokens,
  revision: Revision,
): Reference | null {
  if (value === null) return null;
  once(seen, value.generation, value.object);
  const later = value.seq.length - revision.length || (value.seq > revision ? 1 : 0);
  if (later > 0) throw invalid(seen.path, `seq ${value.seq} is after revision ${revision}`);
  return value;
}

function parseDocument(text: string, path: string): unknown {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch (cause) {
    const state = text === "" ? "empty" : "not complete JSON";
    throw new AgentqError("init-incomplete", `${path} is ${state}`, { cause, details: { path } });
  }
  const header = document as { protocol?: unknown; version?: unknown } | null;
  if (typeof header !== "object" || header === null || header.protocol !== PROTOCOL) {
    throw new AgentqError("init-incomplete", `${path} isn't a document of a v2 store`, {
      details: { path },
    });
  }
  if (header.version !== VERSION) {
    const version = JSON.stringify(header.version) ?? "none";
    throw new AgentqError("version-unsupported", `${path} has version ${version}, not ${VERSION}`, {
      details: { path },
    });
  }
  return document;
}

function validated<T>(check: Check, value: unknown, path: string, where = ""): T {
  if (check(value)) return value as T;
  const place = [where, ...whereWrong(check, value)].filter((part) => part !== "").join("/");
  throw invalid(path, `${place || "document"}: wrong shape`);
}

/** Own keys only, so that an ID such as `__proto__` is a name like any other. */
function entriesOf(value: unknown, path: string, where: string): [string, unknown][] {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw invalid(path, `${where} isn't an object`);
  }
  return Object.entries(value);
}

function invalid(path: string, what: string): AgentqError {
  return new AgentqError("store-invalid", `${path} is malformed: ${what}`, { details: { path } });
}
