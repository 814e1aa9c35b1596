/**
 * Chain commits as bytes: the empty tree, the parents, one identity, a JSON message. They are made in
 * memory and sent to the origin straight from there; the clone never holds them.
 */
import { AgentqError } from "../errors.ts";
import { type Commit, parseCommit, serializeCommit } from "../git/commit.ts";
import { identitySeconds } from "../git/identity.ts";
import { hashObject } from "../git/oid.ts";
import { EMPTY_TREE, type ObjectReader, type Oid, type RawObject } from "../git/types.ts";
import {
  type ChainName,
  corruptChain,
  encodeMessage,
  type Genesis,
  type Lock,
  type Result,
  type Ticket,
} from "./messages.ts";

export interface NewCommit {
  readonly oid: Oid;
  readonly content: Uint8Array;
}

/** Makes the commit of a chain entry; `seconds` is its time, for people to read. */
export function chainCommit(
  parents: readonly Oid[],
  message: Genesis | Ticket | Result | Lock,
  seconds: number,
): NewCommit {
  const identity = `agentq <agentq@localhost> ${Math.max(0, Math.floor(seconds))} +0000`;
  const content = serializeCommit({
    tree: EMPTY_TREE,
    parents,
    author: identity,
    committer: identity,
    message: encodeMessage(message),
  });
  return { oid: hashObject("commit", content), content };
}

/** Parses the commit of a chain entry. */
export function parseChainCommit(chain: ChainName, oid: Oid, content: Uint8Array): Commit {
  try {
    return parseCommit(content, oid);
  } catch (cause) {
    throw new AgentqError(
      "corrupt-chain",
      corruptChain(chain, oid, "can't be parsed").message,
      { cause, details: { chain, commit: oid } },
    );
  }
}

export function commitTime(commit: Commit): number {
  return identitySeconds(commit.committer);
}

const EMPTY: RawObject = { type: "tree", data: new Uint8Array(0) };

/** Where commits of the chains can be looked up. */
export interface CommitSource {
  get(oid: Oid): Uint8Array | undefined;
}

/**
 * A reader of new commits, the empty tree they all have, and `known` commits of the chains, in front of
 * `behind`, which holds what they refer to.
 */
export function withCommits(
  commits: readonly NewCommit[],
  behind?: ObjectReader,
  known?: CommitSource,
): ObjectReader {
  const made = new Map<Oid, RawObject>([[EMPTY_TREE, EMPTY]]);
  for (const { oid, content } of commits) made.set(oid, { type: "commit", data: content });
  const own = (oid: Oid): RawObject | undefined => {
    const object = made.get(oid);
    if (object) return object;
    const data = known?.get(oid);
    return data && { type: "commit", data };
  };
  const missing = (oid: Oid): never => {
    throw new AgentqError("object-missing", `object ${oid} is not here`, { details: { oid } });
  };
  return {
    has: (oid) => own(oid) !== undefined || (behind?.has(oid) ?? false),
    read: (oid) => own(oid) ?? behind?.read(oid) ?? missing(oid),
    stat(oid) {
      const object = own(oid);
      if (object) return { type: object.type, size: object.data.length };
      return behind?.stat(oid) ?? missing(oid);
    },
  };
}
