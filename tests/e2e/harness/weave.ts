/**
 * A queue client written with system git's plumbing that knows only the shared fields: the oracle for
 * the protocol, and the "other client" that shares a queue with agentq.
 */
import { git, tryGit } from "../../helpers/git.ts";
import { isAncestor, readChain } from "./chains.ts";
import { chainRef, refOf, type TestOrigin, tipOf } from "./origin.ts";

const IDENTITY = {
  GIT_AUTHOR_NAME: "weave",
  GIT_AUTHOR_EMAIL: "weave@localhost",
  GIT_COMMITTER_NAME: "weave",
  GIT_COMMITTER_EMAIL: "weave@localhost",
};

/** A commit with the empty tree whose message is `message`. */
export function chainCommit(dir: string, parents: readonly string[], message: unknown): string {
  const tree = tryGit(dir, ["mktree"], { input: "" }).stdout.trim();
  const run = tryGit(dir, ["commit-tree", ...parents.flatMap((p) => ["-p", p]), tree], {
    input: typeof message === "string" ? message : JSON.stringify(message),
    env: IDENTITY,
  });
  if (run.status !== 0) throw new Error(run.stderr);
  return run.stdout.trim();
}

/** One atomic push with a lease on every ref; true when it won. */
export function casPush(
  dir: string,
  url: string,
  updates: readonly { ref: string; old: string | null; new: string }[],
): boolean {
  const run = tryGit(dir, [
    "push",
    "-q",
    "--atomic",
    ...updates.map((u) => `--force-with-lease=${u.ref}:${u.old ?? ""}`),
    url,
    ...updates.map((u) => `${u.new}:${u.ref}`),
  ]);
  return run.status === 0;
}

function fetchChains(origin: TestOrigin, dir: string): void {
  git(
    dir,
    "fetch",
    "-q",
    origin.dir,
    `+refs/weave/*:refs/other/*`,
    `+refs/heads/*:refs/otherheads/*`,
  );
}

/** How often an enqueue may lose its race before the push is taken for refused. */
const TRIES = 20;

/** Enqueues `candidate` and gives its ticket number. */
export function weaveSubmit(
  origin: TestOrigin,
  dir: string,
  candidate: string,
  options: { verifyCmd?: string; check?: string; timeout?: number } = {},
): number {
  for (let tries = 0; tries < TRIES; tries++) {
    fetchChains(origin, dir);
    const chain = readChain(origin, "queue");
    const old = chain.at(-1)?.oid ?? null;
    const head = old ?? chainCommit(dir, [], { kind: "genesis", chain: "queue" });
    const ticket = Math.max(0, chain.length - 1);
    const entry = chainCommit(dir, [head, candidate], {
      kind: "ticket",
      ticket,
      candidate,
      submitter: `weavehost-1-${ticket}`,
      verify_cmd: options.verifyCmd ?? null,
      verify_timeout: options.timeout ?? 1800,
      check: options.check ?? null,
      checkers: null,
    });
    if (casPush(dir, origin.dir, [{ ref: chainRef(origin, "queue"), old, new: entry }])) {
      return ticket;
    }
  }
  throw new Error("the ticket could not be pushed");
}

/** Takes the free lock, lands every ticket that is queued, releases. Conflicts are refused. */
export function weaveLandAll(origin: TestOrigin, dir: string, name = "weavehost-1-lander"): void {
  fetchChains(origin, dir);
  const lockRef = chainRef(origin, "lock");
  let lock = refOf(origin, lockRef);
  const lockEntry = (holder: string | null) =>
    chainCommit(dir, lock === null ? [] : [lock], {
      kind: "lock",
      holder,
      by: name,
      at: Date.now(),
    });
  const acquired = lockEntry(name);
  if (!casPush(dir, origin.dir, [{ ref: lockRef, old: lock, new: acquired }])) {
    throw new Error("the lock is not free");
  }
  lock = acquired;
  for (;;) {
    fetchChains(origin, dir);
    const tickets = readChain(origin, "queue").slice(1);
    const done = readChain(origin, "done");
    const next = tickets[Math.max(0, done.length - 1)];
    if (next === undefined) break;
    const { ticket, candidate, submitter } = next.message;
    const tip = tipOf(origin);
    const landing = mergeFor(dir, tip, candidate);
    const doneOld = done.at(-1)?.oid ?? null;
    const parent = doneOld ?? chainCommit(dir, [], { kind: "genesis", chain: "done" });
    const result = chainCommit(dir, landing.landed === null ? [parent] : [parent, landing.landed], {
      kind: "result",
      ticket,
      candidate,
      submitter,
      lander: name,
      tip,
      landed: landing.landed,
      reason: landing.reason,
      files: [],
      regions: [],
      report: "",
    });
    const renewal = lockEntry(name);
    const updates = [
      { ref: chainRef(origin, "done"), old: doneOld, new: result },
      { ref: lockRef, old: lock, new: renewal },
    ];
    if (landing.landed !== null) {
      updates.push({ ref: `refs/heads/${origin.branch}`, old: tip, new: landing.landed });
    }
    if (!casPush(dir, origin.dir, updates)) throw new Error("lost the lease");
    lock = renewal;
  }
  if (!casPush(dir, origin.dir, [{ ref: lockRef, old: lock, new: lockEntry(null) }])) {
    throw new Error("could not release the lock");
  }
}

function mergeFor(
  dir: string,
  tip: string,
  candidate: string,
): { landed: string | null; reason: string } {
  if (isAncestor(dir, candidate, tip)) return { landed: null, reason: "nothing to land" };
  if (isAncestor(dir, tip, candidate)) return { landed: candidate, reason: "landed" };
  const merged = tryGit(dir, ["merge-tree", "--write-tree", tip, candidate]);
  if (merged.status !== 0) return { landed: null, reason: "merge refused" };
  const tree = merged.stdout.split("\n")[0]!;
  const run = tryGit(
    dir,
    ["commit-tree", "-p", tip, "-p", candidate, "-m", "weave landing", tree],
    {
      env: IDENTITY,
    },
  );
  return { landed: run.stdout.trim(), reason: "landed" };
}
