/** Repositories whose checked-out branch `feat` (his) merges `main` (hers), and what the gate says of them. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { openObjectStore } from "../../../src/git/odb.ts";
import { checkGate, type GateVerdict } from "../../../src/merge/gate.ts";
import { commit, git, makeRepo, tempDir, tryGit, write } from "../../helpers/git.ts";

export type Files = Record<string, string>;
/** Files to write, or what to do in the work tree. */
export type Step = Files | ((dir: string) => void);

/** Commits what a step makes of the work tree, be it nothing. */
export function step(dir: string, what: Step, message = "later"): void {
  if (typeof what === "function") what(dir);
  else for (const [path, data] of Object.entries(what)) write(dir, path, data);
  git(dir, "add", "-A");
  git(dir, "commit", "-q", "--allow-empty", "-m", message);
}

/** `main` and `feat` apart from a base; `feat` is checked out. */
export function apart(base: Step, hers: Step, his: Step): string {
  const dir = makeRepo(tempDir());
  commit(dir, "root", { ".gitkeep": "" });
  step(dir, base, "base");
  git(dir, "checkout", "-q", "-b", "feat");
  step(dir, his, "his");
  git(dir, "checkout", "-q", "main");
  step(dir, hers, "hers");
  git(dir, "checkout", "-q", "feat");
  return dir;
}

/** Merges main, and then makes of the merge commit's tree what `settle` says. */
export function merge(dir: string, args: readonly string[] = [], settle: Step = {}): void {
  tryGit(dir, ["merge", "-q", "--no-commit", "--no-ff", ...args, "main"]);
  step(dir, settle, "merge");
}

/** Both at once. */
export function merged(base: Step, hers: Step, his: Step, settle: Step): string {
  const dir = apart(base, hers, his);
  merge(dir, [], settle);
  return dir;
}

export function judge(dir: string, drops: readonly string[] = []): GateVerdict {
  const db = openObjectStore(join(dir, ".git/objects"));
  try {
    const [tip, candidate] = [git(dir, "rev-parse", "main"), git(dir, "rev-parse", "HEAD")];
    return checkGate(db, { tip, candidate, drops });
  } finally {
    db.close();
  }
}

export type Refusal = Extract<GateVerdict, { ok: false }>;

export function refused(dir: string, drops: readonly string[] = []): Refusal {
  const verdict = judge(dir, drops);
  assert.equal(verdict.ok, false, "the gate let it through");
  return verdict as Refusal;
}

export function refuses(
  dir: string,
  files: readonly string[],
  report = /^/,
  drops: readonly string[] = [],
): void {
  const verdict = refused(dir, drops);
  assert.deepEqual(verdict.files, files);
  assert.match(verdict.report, report);
}

export const passes = (dir: string, drops: readonly string[] = []): void =>
  assert.deepEqual(judge(dir, drops), { ok: true });
