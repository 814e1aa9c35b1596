/**
 * The administrative side of a linked worktree: `<commonDir>/worktrees/<id>/` as git keeps it, and the
 * mark by which we know our own.
 */
import fs from "node:fs";
import { dirname, join, resolve } from "node:path";
import * as z from "zod/mini";
import { ioError } from "../platform/durable.ts";
import { makeBelow } from "../platform/make-below.ts";
import type { Repository } from "./repository.ts";
import type { Oid } from "./types.ts";

const Mark = z.object({
  v: z.literal(1),
  /** The boot of the machine in which the files were last made right; null: they never were. */
  bootId: z.nullable(z.string()),
  /** conversionDigest() at that time. */
  conversion: z.nullable(z.string()),
});
/** What we note down in a worktree of ours. */
export type WorktreeMark = z.infer<typeof Mark>;

const MARK = "agentq";

/** Our mark; null where there is none that can be read. */
export function readMark(gitDir: string): WorktreeMark | null {
  try {
    return Mark.parse(JSON.parse(fs.readFileSync(join(gitDir, MARK), "utf8")));
  } catch {
    return null;
  }
}

/** Notes under which circumstances the files were last made right. */
export function writeMark(gitDir: string, mark: WorktreeMark): void {
  writeFile(join(gitDir, MARK), JSON.stringify(mark) + "\n");
}

/**
 * Makes `path` a linked worktree of the repository, or finds that it is one of ours already.
 * The caller holds the worktree's lock.
 * @returns its git directory; null when `path` holds something that isn't ours
 */
export function attachWorktree(
  repository: Pick<Repository, "commonDir">,
  path: string,
  name: string,
  commit: Oid,
): string | null {
  makeAccessible(path);
  const admin = join(fs.realpathSync(repository.commonDir), "worktrees");
  const dotGit = join(path, ".git");
  const pointer = readText(dotGit)?.match(/^gitdir: (.*)\n?$/)?.[1];
  if (pointer !== undefined) {
    const gitDir = resolve(path, pointer);
    if (!gitDir.startsWith(admin + "/")) return null;
    if (readMark(gitDir) !== null && readText(join(gitDir, "gitdir"))?.trim() === dotGit) {
      return gitDir;
    }
    // git worktree prune, or a clone made anew in the same place: it was ours. Anything else isn't.
    if (fs.existsSync(gitDir)) return null;
  } else if (!isAbsentOrEmpty(path)) return null;
  return makeAdministration(admin, path, name, commit);
}

/** What ran in it may have locked it up (`chmod 0 .`), for everybody who isn't root. */
function makeAccessible(path: string): void {
  const stat = fs.lstatSync(path, { throwIfNoEntry: false });
  if (!stat?.isDirectory() || (stat.mode & 0o700) === 0o700) return;
  try {
    fs.chmodSync(path, (stat.mode & 0o7777) | 0o700);
  } catch {
    // Somebody else's: what is done in it says so.
  }
}

function isAbsentOrEmpty(path: string): boolean {
  const stat = fs.lstatSync(path, { throwIfNoEntry: false });
  return stat === undefined || (stat.isDirectory() && fs.readdirSync(path).length === 0);
}

function makeAdministration(admin: string, path: string, name: string, commit: Oid): string {
  const dotGit = join(path, ".git");
  try {
    makeBelow(dirname(admin), admin);
    for (let i = 1;; i++) {
      const gitDir = join(admin, i === 1 ? name : `${name}${i}`);
      const unfinished = readMark(gitDir) !== null &&
        [undefined, dotGit].includes(readText(join(gitDir, "gitdir"))?.trim());
      if (fs.existsSync(gitDir) && !unfinished) continue;
      makeBelow(admin, gitDir);
      writeMark(gitDir, { v: 1, bootId: null, conversion: null });
      // As git does: while it is locked, git worktree prune leaves the unfinished thing alone.
      writeFile(join(gitDir, "locked"), "initializing\n");
      writeFile(join(gitDir, "gitdir"), dotGit + "\n");
      writeFile(join(gitDir, "commondir"), "../..\n");
      writeFile(join(gitDir, "HEAD"), commit + "\n");
      fs.rmSync(join(gitDir, "index"), { force: true });
      makeBelow(dirname(path), path);
      writeFile(dotGit, `gitdir: ${gitDir}\n`);
      fs.rmSync(join(gitDir, "locked"));
      return gitDir;
    }
  } catch (error) {
    throw ioError("make the worktree", path, error);
  }
}

/** Files by which git remembers an operation; what a command left of them is of no use to the next. */
const LEFTOVERS = [
  "AUTO_MERGE",
  "BISECT_LOG",
  "BISECT_NAMES",
  "BISECT_START",
  "BISECT_TERMS",
  "CHERRY_PICK_HEAD",
  "HEAD.lock",
  "MERGE_HEAD",
  "MERGE_MODE",
  "MERGE_MSG",
  "REVERT_HEAD",
  "SQUASH_MSG",
  "index.lock",
  "locked",
  "rebase-apply",
  "rebase-merge",
  "refs",
  "sequencer",
];

/**
 * Takes away what the command that ran last left in the administration, and carries the clone's sparse
 * checkout over. The caller holds the worktree's lock, so a lock file here is a dead command's.
 */
export function resetAdministration(repository: Repository, gitDir: string): void {
  try {
    for (const name of LEFTOVERS) fs.rmSync(join(gitDir, name), { recursive: true, force: true });
    carrySparseCheckout(repository, gitDir);
  } catch (error) {
    throw ioError("reset", gitDir, error);
  }
}

/** A worktree of a sparse clone is sparse in the same way, as `git worktree add` makes it. */
function carrySparseCheckout(repository: Repository, gitDir: string): void {
  const { config } = repository;
  const from = join(repository.gitDir, "info", "sparse-checkout");
  const to = join(gitDir, "info", "sparse-checkout");
  const own = join(gitDir, "config.worktree");
  const sparse = config.getBoolean("core.sparseCheckout") === true && fs.existsSync(from);
  if (!sparse) {
    fs.rmSync(to, { force: true });
    fs.rmSync(own, { force: true });
    return;
  }
  makeBelow(gitDir, join(gitDir, "info"));
  writeFile(to, fs.readFileSync(from));
  if (config.getBoolean("extensions.worktreeConfig") === true) {
    const cone = config.getBoolean("core.sparseCheckoutCone") ?? true;
    writeFile(own, `[core]\n\tsparseCheckout = true\n\tsparseCheckoutCone = ${cone}\n`);
  } else fs.rmSync(own, { force: true });
}

/** Replaces a file whole, unless it holds that already. */
function writeFile(path: string, content: string | Uint8Array): void {
  const wanted = typeof content === "string" ? new TextEncoder().encode(content) : content;
  const before = fs.existsSync(path) ? fs.readFileSync(path) : null;
  if (before !== null && before.equals(wanted)) return;
  const temp = `${path}.agentq-new`;
  fs.writeFileSync(temp, wanted);
  fs.renameSync(temp, path);
}

function readText(path: string): string | undefined {
  try {
    return fs.readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
