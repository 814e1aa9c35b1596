/** Annotated tags, and peeling: from a tag to what it finally names. */
import { AgentqError } from "../errors.ts";
import { asBuffer } from "./oid.ts";
import type { ObjectReader, ObjectType, Oid } from "./types.ts";

export interface Tag {
  readonly object: Oid;
  readonly type: ObjectType;
  readonly name: string;
  /** The identity line, or null: the oldest tags have none. */
  readonly tagger: string | null;
  readonly message: Uint8Array;
}

/** @throws `repository-corrupt`; `oid` only names the tag in it */
export function parseTag(content: Uint8Array, oid?: Oid): Tag {
  const data = asBuffer(content);
  const blank = data.indexOf("\n\n");
  const head = data.toString("latin1", 0, blank < 0 ? data.length : blank + 1);
  const match = /^object ([0-9a-f]{40})\ntype (commit|tree|blob|tag)\ntag ([^\n]*)(?:\n|$)/.exec(
    head,
  );
  if (!match) {
    throw new AgentqError("repository-corrupt", `Tag ${oid ?? "(unnamed)"} is malformed.`, {
      details: oid === undefined ? {} : { oid },
    });
  }
  return {
    object: match[1]!,
    type: match[2] as ObjectType,
    name: match[3]!,
    tagger: /^tagger (.*)$/m.exec(head)?.[1] ?? null,
    message: data.subarray(blank < 0 ? data.length : blank + 2),
  };
}

/** What `oid` names once every tag is taken off. */
export function peel(reader: ObjectReader, oid: Oid): { oid: Oid; type: ObjectType } {
  // A tag names an object that existed before it, so this ends; the bound is for corrupt stores.
  for (let depth = 0; depth < 1000; depth++) {
    const { type } = reader.stat(oid);
    if (type !== "tag") return { oid, type };
    oid = parseTag(reader.read(oid).data, oid).object;
  }
  throw new AgentqError("repository-corrupt", `Tag ${oid} leads through more than 1000 tags.`);
}
