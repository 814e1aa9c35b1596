/** Commits: parsed without losing a byte, so that what is serialized again has the same id. */
import { Buffer } from "node:buffer";
import { AgentqError } from "../errors.ts";
import { identitySeconds } from "./identity.ts";
import { asBuffer } from "./oid.ts";
import type { Oid } from "./types.ts";

/** A header that is none of the four every commit has: `encoding`, `gpgsig`, `mergetag`… */
export interface ExtraHeader {
  readonly name: string;
  /** Byte string; continuation lines are joined by LF. */
  readonly value: string;
}

export interface Commit {
  readonly tree: Oid;
  readonly parents: readonly Oid[];
  /** The identity line as a byte string; {@link parseIdentity} takes it apart. */
  readonly author: string;
  readonly committer: string;
  readonly headers: readonly ExtraHeader[];
  readonly message: Uint8Array;
}

/** The part of a commit that walks need. */
export interface CommitLinks {
  readonly tree: Oid;
  readonly parents: readonly Oid[];
  /** Committer time in seconds. */
  readonly time: number;
}

const LF = 10;
const SPACE = 32;

function corrupt(oid: Oid | undefined, what: string): AgentqError {
  return new AgentqError("repository-corrupt", `Commit ${oid ?? "(unnamed)"} ${what}.`, {
    details: oid === undefined ? {} : { oid },
  });
}

function hexOf(data: Buffer, start: number, oid: Oid | undefined): Oid {
  const text = data.toString("latin1", start, start + 40);
  if (!/^[0-9a-f]{40}$/.test(text) || data[start + 40] !== LF) {
    throw corrupt(oid, "has a malformed tree or parent line");
  }
  return text;
}

/**
 * Parses a commit's content. `oid` only names it in errors.
 * @throws `repository-corrupt`
 */
export function parseCommit(content: Uint8Array, oid?: Oid): Commit {
  const data = asBuffer(content);
  if (data.toString("latin1", 0, 5) !== "tree ") throw corrupt(oid, "does not begin with its tree");
  const tree = hexOf(data, 5, oid);
  let at = 46;
  const parents: Oid[] = [];
  while (data.toString("latin1", at, at + 7) === "parent ") {
    parents.push(hexOf(data, at + 7, oid));
    at += 48;
  }
  let author: string | undefined;
  let committer: string | undefined;
  const headers: { name: string; value: string }[] = [];
  while (at < data.length && data[at] !== LF) {
    let end = data.indexOf(LF, at);
    if (end < 0) end = data.length;
    if (data[at] === SPACE) {
      const last = headers.at(-1);
      if (!last) throw corrupt(oid, "continues a header that cannot be continued");
      last.value += "\n" + data.toString("latin1", at + 1, end);
    } else {
      const line = data.toString("latin1", at, end);
      const space = line.indexOf(" ");
      const name = space < 0 ? line : line.slice(0, space);
      const value = space < 0 ? "" : line.slice(space + 1);
      if (author === undefined && name === "author") author = value;
      else if (committer === undefined && name === "committer") committer = value;
      else headers.push({ name, value });
    }
    at = end + 1;
  }
  if (author === undefined || committer === undefined) {
    throw corrupt(oid, "lacks its author or committer");
  }
  return { tree, parents, author, committer, headers, message: data.subarray(at + 1) };
}

/** The content of a commit; `message` as text is written as UTF-8. */
export function serializeCommit(
  commit: Omit<Commit, "headers" | "message"> & {
    readonly headers?: readonly ExtraHeader[];
    readonly message: Uint8Array | string;
  },
): Uint8Array {
  let head = `tree ${commit.tree}\n`;
  for (const parent of commit.parents) head += `parent ${parent}\n`;
  head += `author ${commit.author}\ncommitter ${commit.committer}\n`;
  for (const { name, value } of commit.headers ?? []) {
    head += `${name} ${value.replaceAll("\n", "\n ")}\n`;
  }
  const message = typeof commit.message === "string"
    ? Buffer.from(commit.message, "utf8")
    : commit.message;
  return Buffer.concat([Buffer.from(head + "\n", "latin1"), message]);
}

/**
 * Tree, parents and committer time only, for walks.
 * @throws `repository-corrupt`
 */
export function parseCommitLinks(content: Uint8Array, oid?: Oid): CommitLinks {
  const data = asBuffer(content);
  // Everything wanted stands in the first lines: one decoding of a bounded slice serves most commits.
  let text = data.toString("latin1", 0, Math.min(data.length, 640));
  if (!text.includes("\ncommitter ") || text.indexOf("\n", text.indexOf("\ncommitter ") + 1) < 0) {
    text = data.toString("latin1");
  }
  if (!/^tree [0-9a-f]{40}\n/.test(text)) throw corrupt(oid, "does not begin with its tree");
  const parents: Oid[] = [];
  let at = 46;
  while (text.startsWith("parent ", at)) {
    const parent = text.slice(at + 7, at + 47);
    if (!/^[0-9a-f]{40}$/.test(parent) || text.charCodeAt(at + 47) !== LF) {
      throw corrupt(oid, "has a malformed parent line");
    }
    parents.push(parent);
    at += 48;
  }
  let time = 0;
  const committer = text.indexOf("\ncommitter ", at - 1);
  if (committer >= 0) {
    const end = text.indexOf("\n", committer + 1);
    time = identitySeconds(text.slice(committer, end < 0 ? text.length : end));
  }
  return { tree: text.slice(5, 45), parents, time };
}

/** The message as text, by the commit's own `encoding` where it has one, else UTF-8. */
export function commitMessage(commit: Commit): string {
  const encoding = commit.headers.find((header) => header.name === "encoding")?.value ?? "utf-8";
  try {
    return new TextDecoder(encoding.trim()).decode(commit.message);
  } catch {
    return new TextDecoder("latin1").decode(commit.message);
  }
}
