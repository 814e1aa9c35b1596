/**
 * Persistent linked worktrees for checking commits in, real ones: `git worktree list`, `git status` and
 * `git rev-parse HEAD^{tree}` in them tell the truth.
 *
 *   <directory>/<name>/.git                 "gitdir: …" ◀──┐ the two name each other
 *   <commonDir>/worktrees/<id>/gitdir       ───────────────┘
 *   <commonDir>/worktrees/<id>/{commondir,HEAD,index}
 *   <commonDir>/worktrees/<id>/agentq       ours: we made it, and in which boot it was last right
 *
 * A pool: `name`, `name-2` … `name-<max>`; the first that nobody uses is taken and locked. Only directories
 * that carry our mark, or are empty or absent, are ever written to.
 *
 * HEAD is written last, after files and index, so that a worktree which an interrupted run left behind
 * shows up in `git status`, and the next run repairs it.
 */
import fs from "node:fs";
import { dirname, join, resolve } from "node:path";
import { AgentqError } from "../errors.ts";
import { type Clock, systemClock } from "../platform/clock.ts";
import { ioError } from "../platform/durable.ts";
import { processIdentity } from "../platform/host.ts";
import { makeBelow } from "../platform/make-below.ts";
import { type CheckoutOptions, type CheckoutResult, checkoutTree } from "./checkout.ts";
import { parseCommit } from "./commit.ts";
import { openRepository, type Repository } from "./repository.ts";
import type { Oid } from "./types.ts";
import { attachWorktree, readMark, resetAdministration, writeMark } from "./worktree-admin.ts";
import { conversionDigest } from "./work-tree-settings.ts";
import { SILENCE_MS, takeWorktreeLock, watchSilence, type WorktreeLock } from "./worktree-lock.ts";

export interface WorktreeOptions extends CheckoutOptions {
  /** How many worktrees there may be (default 8). */
  max?: number;
  clock?: Clock;
  /** See worktree-lock.ts; for tests. */
  silenceMs?: number;
}

export interface Worktree {
  /** Absolute path; the commit's files are in it. */
  readonly path: string;
  readonly name: string;
  readonly commit: Oid;
  readonly checkout: CheckoutResult;
  /** Lets others have it. The files stay for the next time. */
  release(): void;
}

const MAX_WORKTREES = 8;
const POLL_MS = 1_000;

/**
 * A worktree of `repository` below `directory` with exactly `commit` checked out, its own until released.
 *
 * Tracked files are brought to the commit, untracked ones removed, ignored ones kept. Works for bare,
 * shallow and shared clones, from linked worktrees and submodules. `directory` belongs to one repository.
 *
 * @throws what {@link checkoutTree} throws; `worktree-busy` when all are in use by living processes;
 *   `worktree-foreign` when none of the names is free for us
 */
export async function prepareWorktree(
  repository: Repository,
  directory: string,
  name: string,
  commit: Oid,
  options: WorktreeOptions = {},
): Promise<Worktree> {
  if (!/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$/.test(name)) {
    throw new AgentqError("internal", `${JSON.stringify(name)} can't name a worktree.`);
  }
  const { tree } = parseCommit(repository.objects.read(commit).data, commit);
  const root = makeDirectory(repository, directory);
  const { lock, taken, gitDir } = await takeOne(repository, root, name, commit, options);
  const path = join(root, taken);
  try {
    resetAdministration(repository, gitDir);
    const linked = withObjects(openRepository(path), repository);
    const before = readMark(gitDir);
    const now = {
      v: 1,
      bootId: processIdentity().bootId,
      conversion: conversionDigest(linked),
    } as const;
    const trusted = now.bootId !== null && before?.bootId === now.bootId &&
      before.conversion === now.conversion;
    const checkout = await checkoutTree(linked, tree, {
      ...options,
      distrust: options.distrust || !trusted,
    });
    detachHead(gitDir, commit);
    if (!trusted) writeMark(gitDir, now);
    linked.close();
    return { path, name: taken, commit, checkout, release: () => lock.release() };
  } catch (error) {
    lock.release();
    throw error;
  }
}

/** The real path of a directory that is made when it isn't there; a repository that it lies in is not. */
function makeDirectory({ commonDir }: Repository, directory: string): string {
  try {
    makeBelow(directory.startsWith(`${commonDir}/`) ? commonDir : null, directory);
    return fs.realpathSync(directory);
  } catch (error) {
    throw ioError("make the directory", directory, error);
  }
}

/** Locks and attaches the first worktree of the pool that is free, waiting out silent owners. */
async function takeOne(
  repository: Repository,
  root: string,
  name: string,
  commit: Oid,
  options: WorktreeOptions,
): Promise<{ lock: WorktreeLock; taken: string; gitDir: string }> {
  const clock = options.clock ?? systemClock;
  const names = Array.from(
    { length: options.max ?? MAX_WORKTREES },
    (_, i) => i === 0 ? name : `${name}-${i + 1}`,
  );
  const silence = watchSilence(root, clock, options.silenceMs);
  const started = clock.monotonic();
  for (;;) {
    const foreign: string[] = [];
    for (const taken of names) {
      const lock = takeWorktreeLock(root, taken);
      if (lock === null) continue;
      try {
        const gitDir = attachWorktree(repository, join(root, taken), taken, commit);
        if (gitDir !== null) return { lock, taken, gitDir };
      } catch (error) {
        lock.release();
        throw error;
      }
      lock.release();
      foreign.push(taken);
    }
    if (foreign.length === names.length) {
      const path = join(root, foreign[0]!);
      throw new AgentqError(
        "worktree-foreign",
        `${path} holds something that agentq didn't put there.`,
        {
          details: { path },
        },
      );
    }
    // All in use. An owner that nobody can prove gone is given the time to show that it lives.
    if (names.some((busy) => silence.breakSilent(busy))) continue;
    if (clock.monotonic() - started > (options.silenceMs ?? SILENCE_MS) + 2 * POLL_MS) {
      throw new AgentqError(
        "worktree-busy",
        `All ${names.length} worktrees in ${root} are in use.`,
        {
          details: { path: root },
        },
      );
    }
    await clock.sleep(POLL_MS, options.signal);
  }
}

/** The linked worktree's view of the repository, with the objects (and caches) that are open already. */
function withObjects(linked: Repository, repository: Repository): Repository {
  return Object.create(linked, { objects: { value: repository.objects } });
}

/** Detaches HEAD at a commit. Not synced: a worktree is never believed after a power cut. */
function detachHead(gitDir: string, commit: Oid): void {
  const path = join(gitDir, "HEAD");
  if (fs.readFileSync(path, "latin1") === commit + "\n") return;
  const lock = `${path}.lock`;
  try {
    fs.writeFileSync(lock, commit + "\n", { flag: "wx" });
    fs.renameSync(lock, path);
  } catch (error) {
    throw ioError("write", path, error);
  }
}

/** Worktrees of the pool that exist, for `doctor` and for those who clean up. */
export function listWorktrees(repository: Repository, directory: string): string[] {
  let ids: string[];
  try {
    ids = fs.readdirSync(join(repository.commonDir, "worktrees"));
  } catch {
    return [];
  }
  const root = fs.existsSync(directory) ? fs.realpathSync(directory) : resolve(directory);
  return ids.flatMap((id) => {
    const gitDir = join(repository.commonDir, "worktrees", id);
    if (readMark(gitDir) === null) return [];
    const path = dirname(fs.readFileSync(join(gitDir, "gitdir"), "utf8").trim());
    return dirname(path) === root ? [path] : [];
  });
}
