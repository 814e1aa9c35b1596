/**
 * The queue laws, checked on the origin with real git after every scenario:
 *
 * - `queue`, `done` and `lock` are append-only chains of empty trees with the right parents,
 *   identities and numbers;
 * - one result a ticket, in ticket order, for the ticket's own candidate;
 * - the branch moved exactly to the landed results (and to what was pushed from outside), each move a
 *   fast-forward of the one before;
 * - everything landed on a ticket with a verify command was verified, as that very commit and tree;
 * - `git fsck` finds nothing, no lock or temporary file is left, the lock is free.
 */
import assert from "node:assert/strict";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { git, tryGit } from "../../helpers/git.ts";
import { type Entry, isAncestor, readChain, readCommit } from "./chains.ts";
import { logLines, refOf, type TestOrigin, tipOf } from "./origin.ts";

const EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
const OID = /^[0-9a-f]{40}$/;

export interface LawOptions {
  /** Results expected in `done`; unless given, every ticket must have its result. */
  done?: number;
  /** Commits pushed to the branch from outside the queue, in any order. */
  outside?: readonly string[];
  /** A pusher was killed: post-receive may not have run, and temporary files may be left. */
  killed?: boolean;
  /** The lock may be held or stale at the end (nobody is left to release it). */
  lockHeld?: boolean;
  /** The branch was rewound from outside: skip the laws of the branch's path. */
  rewound?: boolean;
  /** Tickets whose verify command isn't the harness's own script. */
  foreignVerify?: boolean;
}

/** Throws an assertion error that names the first broken law. */
export function checkLaws(origin: TestOrigin, options: LawOptions = {}): void {
  const tickets = checkQueue(origin);
  const done = checkDone(origin, tickets);
  assert.equal(done.length, options.done ?? tickets.length, "number of results");
  checkLock(origin, options);
  if (!options.rewound) checkBranch(origin, tickets, done, options);
  if (!options.foreignVerify) checkVerified(origin, tickets, done);
  checkRepository(origin, options);
}

function checkEntry(entry: Entry, kind: string): void {
  const where = `${kind} ${entry.oid}`;
  assert.equal(entry.tree, EMPTY_TREE, `${where}: tree`);
  assert.equal(entry.message.kind, kind, `${where}: kind`);
  if (entry.message.agentq !== undefined) {
    assert.equal(entry.message.agentq.v, 1, `${where}: agentq.v`);
    assert.match(entry.author, /^agentq <agentq@localhost> \d+ [+-]\d{4}$/, `${where}: author`);
    assert.match(
      entry.committer,
      /^agentq <agentq@localhost> \d+ [+-]\d{4}$/,
      `${where}: committer`,
    );
  }
}

function checkGenesis(chain: Entry[], name: string): Entry[] {
  if (chain.length === 0) return [];
  const genesis = chain[0]!;
  assert.equal(genesis.tree, EMPTY_TREE, `${name} genesis: tree`);
  assert.deepEqual(genesis.parents, [], `${name} genesis: parents`);
  assert.equal(genesis.message.kind, "genesis", `${name} genesis: kind`);
  assert.equal(genesis.message.chain, name, `${name} genesis: chain`);
  assert.ok(chain.length > 1, `${name}: genesis without an entry`);
  return chain.slice(1);
}

function checkQueue(origin: TestOrigin): Entry[] {
  const chain = readChain(origin, "queue");
  const tickets = checkGenesis(chain, "queue");
  tickets.forEach((entry, n) => {
    checkEntry(entry, "ticket");
    const { message } = entry;
    assert.equal(message.ticket, n, `queue: ticket number at depth ${n}`);
    assert.match(message.candidate, OID);
    assert.deepEqual(entry.parents, [chain[n]!.oid, message.candidate], `ticket ${n}: parents`);
    assert.equal(typeof message.submitter, "string");
    assert.ok(message.verify_cmd === null || typeof message.verify_cmd === "string");
    assert.equal(typeof message.verify_timeout, "number");
    assert.ok("check" in message && "checkers" in message, `ticket ${n}: shared fields`);
  });
  const submissions = tickets.map((t) => t.message.agentq?.submission).filter((s) =>
    s !== undefined
  );
  assert.equal(new Set(submissions).size, submissions.length, "a submission was enqueued twice");
  return tickets;
}

function checkDone(origin: TestOrigin, tickets: Entry[]): Entry[] {
  const chain = readChain(origin, "done");
  const done = checkGenesis(chain, "done");
  done.forEach((entry, n) => {
    checkEntry(entry, "result");
    const { message } = entry;
    assert.equal(message.ticket, n, `done: one result a ticket, in order, at ${n}`);
    const ticket = tickets[n];
    assert.ok(ticket, `result ${n} has no ticket`);
    assert.equal(message.candidate, ticket.message.candidate, `result ${n}: candidate`);
    assert.equal(message.submitter, ticket.message.submitter, `result ${n}: submitter`);
    assert.equal(typeof message.lander, "string");
    assert.match(message.tip, OID, `result ${n}: tip`);
    assert.ok(message.landed === null || OID.test(message.landed), `result ${n}: landed`);
    assert.equal(message.landed !== null, message.reason === "landed", `result ${n}: reason`);
    assert.ok(Array.isArray(message.files) && Array.isArray(message.regions), `result ${n}: lists`);
    assert.equal(typeof message.report, "string");
    assert.deepEqual(
      entry.parents,
      message.landed === null ? [chain[n]!.oid] : [chain[n]!.oid, message.landed],
      `result ${n}: parents`,
    );
  });
  return done;
}

function checkLock(origin: TestOrigin, options: LawOptions): void {
  const chain = readChain(origin, "lock");
  chain.forEach((entry, n) => {
    checkEntry(entry, "lock");
    assert.deepEqual(entry.parents, n === 0 ? [] : [chain[n - 1]!.oid], `lock ${n}: parents`);
    const { holder, by, at } = entry.message;
    assert.ok(holder === null || typeof holder === "string", `lock ${n}: holder`);
    assert.equal(typeof by, "string", `lock ${n}: by`);
    assert.equal(typeof at, "number", `lock ${n}: at`);
  });
  if (chain.length > 0 && !options.lockHeld) {
    assert.equal(chain.at(-1)!.message.holder, null, "the lock was left held");
  }
}

function checkBranch(
  origin: TestOrigin,
  tickets: Entry[],
  done: Entry[],
  options: LawOptions,
): void {
  const outside = new Set(options.outside ?? []);
  const moves: [string, string][] = [];
  let at = origin.initial;
  for (const { message } of done) {
    if (message.landed === null) continue;
    const n = message.ticket;
    if (message.tip !== at) {
      assert.ok(outside.has(message.tip), `ticket ${n} landed on ${message.tip}, not on ${at}`);
      at = message.tip;
    }
    assert.ok(isAncestor(origin.dir, at, message.landed), `ticket ${n}: not a fast-forward`);
    const candidate = tickets[n]!.message.candidate;
    if (message.landed !== candidate) {
      assert.deepEqual(
        readCommit(origin.dir, message.landed).parents,
        [message.tip, candidate],
        `ticket ${n}: the merge's parents`,
      );
    } else {
      assert.ok(isAncestor(origin.dir, message.tip, candidate), `ticket ${n}: fast-forward`);
    }
    assert.notEqual(message.landed, at, `ticket ${n}: landed nothing`);
    moves.push([message.tip, message.landed]);
    at = message.landed;
  }
  const tip = tipOf(origin);
  if (tip !== at) assert.ok(outside.has(tip), `the branch is at ${tip}, not at ${at}`);
  checkMoves(origin, moves, outside, options);
}

/** The post-receive log: every landing once, nothing else but outside pushes, all fast-forwards. */
function checkMoves(
  origin: TestOrigin,
  moves: [string, string][],
  outside: ReadonlySet<string>,
  options: LawOptions,
): void {
  const logged = logLines(origin.movesLog);
  assert.equal(new Set(logged).size, logged.length, "a move of the branch was logged twice");
  for (const line of logged) {
    const [from, to] = line.split(" ") as [string, string];
    assert.ok(isAncestor(origin.dir, from, to), `the branch moved ${line}: not a fast-forward`);
    const ours = moves.some(([tip, landed]) => tip === from && landed === to);
    assert.ok(ours || outside.has(to), `the branch moved ${line}: no result says so`);
  }
  if (options.killed) return;
  for (const [tip, landed] of moves) {
    assert.ok(logged.includes(`${tip} ${landed}`), `post-receive saw no move ${tip} ${landed}`);
  }
}

function checkVerified(origin: TestOrigin, tickets: Entry[], done: Entry[]): void {
  const passed = new Set(
    logLines(origin.verifyLog).filter((line) => line.startsWith("ok ")).map((line) =>
      line.slice(3)
    ),
  );
  for (const { message } of done) {
    if (message.landed === null || tickets[message.ticket]!.message.verify_cmd === null) continue;
    const tree = git(origin.dir, "rev-parse", `${message.landed}^{tree}`);
    const line = `${message.ticket} ${message.landed} ${tree} ${message.tip}`;
    assert.ok(passed.has(line), `landed without verification: ${line}`);
  }
}

function checkRepository(origin: TestOrigin, options: LawOptions): void {
  const fsck = tryGit(origin.dir, ["fsck", "--full", "--no-dangling", "--no-progress"]);
  assert.equal(fsck.status, 0, `git fsck: ${fsck.stdout}${fsck.stderr}`);
  assert.doesNotMatch(fsck.stdout + fsck.stderr, /error|missing|broken|corrupt|bad/, "git fsck");
  if (options.killed) return;
  const locks = leftovers(origin.dir);
  assert.deepEqual(locks, [], "left behind in the origin");
  assert.equal(refOf(origin, "HEAD"), tipOf(origin), "HEAD still names the branch");
}

/** Lock files, signs of life, quarantine directories and temporary objects in the origin. */
export function leftovers(dir: string): string[] {
  const found: string[] = [];
  const walk = (path: string) => {
    if (!existsSync(path)) return;
    for (const entry of readdirSync(path, { withFileTypes: true })) {
      const full = join(path, entry.name);
      if (/\.lock$|^tmp_|^incoming-|^tmp_objdir/.test(entry.name)) {
        found.push(full.slice(dir.length + 1));
      } else if (entry.isDirectory()) walk(full);
    }
  };
  for (const part of ["refs", "objects"]) walk(join(dir, part));
  for (const name of readdirSync(dir)) {
    if (name.endsWith(".lock") || name.startsWith("agentq-life-")) found.push(name);
  }
  return found;
}
