/** Reads the three chains with real git, knowing only what the protocol says: nothing from src/. */
import { git, tryGit } from "../../helpers/git.ts";
import { chainRef, refOf, type TestOrigin } from "./origin.ts";

/** One commit of a chain. */
export interface Entry {
  readonly oid: string;
  readonly tree: string;
  readonly parents: readonly string[];
  readonly author: string;
  readonly committer: string;
  // deno-lint-ignore no-explicit-any -- asserted field by field
  readonly message: any;
}

/** A commit's headers and message. */
export function readCommit(dir: string, oid: string): Omit<Entry, "message"> & { text: string } {
  const raw = git(dir, "cat-file", "commit", oid);
  const split = raw.indexOf("\n\n");
  const head = split < 0 ? raw : raw.slice(0, split);
  const field = (name: string) =>
    head.split("\n").filter((line) => line.startsWith(name + " ")).map((line) =>
      line.slice(name.length + 1)
    );
  return {
    oid,
    tree: field("tree")[0]!,
    parents: field("parent"),
    author: field("author")[0]!,
    committer: field("committer")[0]!,
    text: split < 0 ? "" : raw.slice(split + 2),
  };
}

/** A chain from its first commit to its head, following first parents. */
export function readChain(origin: TestOrigin, chain: "queue" | "done" | "lock"): Entry[] {
  const head = refOf(origin, chainRef(origin, chain));
  if (head === null) return [];
  const oids = git(origin.dir, "rev-list", "--first-parent", "--reverse", head).split("\n");
  return oids.map((oid) => {
    const { text, ...commit } = readCommit(origin.dir, oid);
    return { ...commit, message: JSON.parse(text) };
  });
}

/** The chain's entries without its genesis. */
export function entries(origin: TestOrigin, chain: "queue" | "done"): Entry[] {
  return readChain(origin, chain).slice(1);
}

/** The results in ticket order, as a client that knows only the shared fields reads them. */
export function results(origin: TestOrigin): {
  ticket: number;
  candidate: string;
  submitter: string;
  lander: string;
  tip: string;
  landed: string | null;
  reason: string;
  files: string[];
  regions: string[];
  report: string;
}[] {
  return entries(origin, "done").map((entry) => entry.message);
}

/** True when `ancestor` is reachable from `commit`. */
export function isAncestor(dir: string, ancestor: string, commit: string): boolean {
  return tryGit(dir, ["merge-base", "--is-ancestor", ancestor, commit]).status === 0;
}
