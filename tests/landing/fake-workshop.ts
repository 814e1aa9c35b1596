/** A workshop without machine: merges are commits with two parents, checks are functions. */
import { type CommitReader, isAncestor } from "../../src/git/history.ts";
import { parseCommit, serializeCommit } from "../../src/git/commit.ts";
import { hashObject } from "../../src/git/oid.ts";
import { EMPTY_TREE, type Oid } from "../../src/git/types.ts";
import { withCommits } from "../../src/landing/chain-commit.ts";
import type { TicketEntry } from "../../src/landing/chain.ts";
import { REASONS } from "../../src/landing/result.ts";
import type { ReadyMerge, Refusal, Workshop } from "../../src/landing/workshop.ts";
import type { FakeOrigin } from "./fake-origin.ts";

export interface FakeChecks {
  /** Awaited inside verify. */
  step?(): Promise<void>;
  /** The exit status of a ticket's command. */
  exit?(ticket: TicketEntry): number;
  /** Throws what the machine would. */
  fail?(ticket: TicketEntry): void;
  /** Told of every commit verified. */
  verified?(commit: Oid, tip: Oid | null): void;
}

/** The one merge commit of a tip and a ticket. */
export function fakeMerge(tip: Oid, ticket: TicketEntry): { oid: Oid; content: Uint8Array } {
  const identity = `m <m@m> ${ticket.seconds} +0000`;
  const content = serializeCommit({
    tree: EMPTY_TREE,
    parents: [tip, ticket.message.candidate],
    author: identity,
    committer: identity,
    message: `merge ticket ${ticket.message.ticket}\n`,
  });
  return { oid: hashObject("commit", content), content };
}

export function createFakeWorkshop(fake: FakeOrigin, checks: FakeChecks = {}): Workshop {
  const reader: CommitReader = fake.reader();
  const contains = (commit: Oid, ancestor: Oid) => isAncestor(reader, ancestor, commit);
  function merge(ticket: TicketEntry, tip: Oid | null): ReadyMerge | Refusal {
    const { candidate } = ticket.message;
    const ready = { verdict: "ready" as const, tree: EMPTY_TREE, base: null };
    if (tip === null || contains(candidate, tip)) {
      if (candidate === tip) return nothing();
      return { ...ready, commit: candidate, objects: reader };
    }
    if (contains(tip, candidate)) return nothing();
    const made = fakeMerge(tip, ticket);
    return { ...ready, commit: made.oid, objects: withCommits([made], reader) };
  }
  return {
    async contains(commit, ancestor) {
      return contains(commit, ancestor);
    },
    async admit() {
      return null;
    },
    async merge(ticket, tip) {
      return merge(ticket, tip);
    },
    async mergedCommit(ticket, tip) {
      const made = merge(ticket, tip);
      return made.verdict === "ready" ? made.commit : null;
    },
    async reading() {
      return reader;
    },
    async parents(commit) {
      return parseCommit(reader.read(commit).data).parents;
    },
    async verify(ticket, tip, made, signal, begin) {
      begin?.();
      await checks.step?.();
      signal.throwIfAborted();
      checks.fail?.(ticket);
      const exit = checks.exit?.(ticket) ?? 0;
      const verify = { cmd: "check", exit, ms: 1 };
      if (exit !== 0) {
        return {
          verdict: "refused",
          reason: REASONS.verify,
          files: [],
          regions: [],
          report: "no",
          verify,
        };
      }
      checks.verified?.(made.commit, tip);
      return { verdict: "verified", report: "", verify };
    },
  };
}

function nothing(): Refusal {
  return { verdict: "refused", reason: REASONS.nothing, files: [], regions: [], report: "" };
}
