/**
 * Brings a work tree that is ours to exactly one tree, rewriting only what differs from it.
 *
 *   lock the index ─▶ expand the tree, refuse it if a path is unsafe   (nothing written yet)
 *     ─▶ compare: tree against index, index against the files' stats
 *     ─▶ remove what left the tree, and untracked debris
 *     ─▶ write what is new, changed or damaged ─▶ rename the new index into place
 *
 * Crashes: until the last step the old index stands. It describes files by their stat, so whatever an
 * interrupted run wrote no longer fits it and is compared by content, or written, again by the next run.
 * Files are not synced one by one: after a power cut nothing of a work tree is believed
 * (`distrust`), which costs one reading of it instead of twenty thousand fsyncs each time.
 */
import fs from "node:fs";
import { join } from "node:path";
import { AgentqError, isAgentqError } from "../errors.ts";
import type { AttributeLookup } from "./attributes.ts";
import { removeDebris } from "./clean.ts";
import { type CheckoutPlan, newEntry, planCheckout } from "./checkout-plan.ts";
import { ENOUGH_TO_SHARE, startHelper } from "./checkout-share.ts";
import { isPlain, makeRoom, writeLeaf, writePlain } from "./checkout-write.ts";
import { conversionFor } from "./eol.ts";
import { type IndexFile, lockIndex, readIndex } from "./index-file.ts";
import type { IndexEntry } from "./index-format.ts";
import { refuseMissing } from "./missing-blobs.ts";
import { pacer } from "./pacer.ts";
import { findCollision, unsafeName, unsafePathError } from "./path-safety.ts";
import { quotePath } from "./path-quote.ts";
import type { Repository } from "./repository.ts";
import { sparseMatcher } from "./sparse.ts";
import { isGitlinkMode, isSymlinkMode } from "./tree.ts";
import { expandTree, type TreeLeaf } from "./tree-leaves.ts";
import type { ObjectReader, Oid } from "./types.ts";
import { openWorkTree, parentOf, type WorkTree } from "./work-tree.ts";
import {
  leafFiles,
  repositoryAttributes,
  repositoryIgnores,
  type WorkTreeSettings,
  workTreeSettings,
} from "./work-tree-settings.ts";

export interface CheckoutOptions {
  /** Believe no stat: read every file. For a work tree that a power cut may have torn. */
  distrust?: boolean;
  /** Whether the file system takes `A` and `a` for one name. Found out unless given. */
  ignoreCase?: boolean;
  /** Aborting stops between two files; the next checkout repairs what is half done. */
  signal?: AbortSignal;
}

export interface CheckoutResult {
  /** Files and links written. */
  readonly written: number;
  /** Tracked paths removed. */
  readonly removed: number;
  /** Files that were right already. */
  readonly kept: number;
  /** Untracked paths that were removed. */
  readonly debris: readonly string[];
  /** Paths with a `filter=` whose smudge command was not run: they hold what the repository holds. */
  readonly unfiltered: readonly string[];
  /** Submodules: empty directories. */
  readonly submodules: readonly string[];
  /** How many paths lie outside the sparse checkout and are not there. */
  readonly outsideSparse: number;
}

/**
 * Checks out `tree` into the work tree of `repository`, which must be one that nobody works in:
 * uncommitted changes and untracked files are removed.
 *
 * @throws `unsafe-path` before anything is written; `object-missing` (details.oids lists every blob
 *   that is needed), also before; `index-locked`, `path-not-representable`, `io-error`
 */
export async function checkoutTree(
  repository: Repository,
  tree: Oid,
  options: CheckoutOptions = {},
): Promise<CheckoutResult> {
  const root = repository.workTree;
  if (root === null) {
    throw new AgentqError("not-a-repository", `${repository.gitDir} has no work tree.`);
  }
  const { objects } = repository;
  const indexPath = join(repository.gitDir, "index");
  const pause = pacer(options.signal);
  const lock = lockIndex(indexPath);
  try {
    const old = options.distrust
      ? { ...readOrEmpty(indexPath, objects), timestamp: null }
      : readOrEmpty(indexPath, objects);
    const settings = workTreeSettings(repository.config);
    const ignoreCase = options.ignoreCase ??
      (settings.ignoreCase || fs.existsSync(join(root, ".GIT")));
    const { leaves, cacheTree } = expandTree(objects, tree, {
      known: old,
      check(path, name, mode) {
        const reason = unsafeName(name, mode);
        if (reason !== null) throw unsafePathError(path, reason);
      },
    });
    if (ignoreCase) refuseCollisions(leaves);

    const attributes = repositoryAttributes(repository, leafFiles(objects, leaves));
    const files = openWorkTree(root);
    const context = {
      files,
      objects,
      settings,
      attributes,
      timestamp: old.timestamp,
      exact: true,
    };
    const plan = await planCheckout(
      context,
      old.entries,
      leaves,
      sparseMatcher(repository),
      convertedAlike(repository, settings, attributes, old.entries, leaves),
      pause,
    );
    refuseMissing(repository, plan.writes.map((at) => leaves[at]!), objects);

    let removed = 0;
    for (const path of plan.removals) {
      const stat = files.lstat(path);
      if (stat === null || stat.isDirectory()) continue;
      files.remove(path);
      files.pruneEmpty(parentOf(path));
      removed++;
      const waiting = pause();
      if (waiting) await waiting;
    }
    const debris: string[] = [];
    for (const path of removeDebris(cleanPlan(repository, files, leaves, plan, ignoreCase))) {
      if (path !== null) debris.push(path);
      const waiting = pause();
      if (waiting) await waiting;
    }
    await writePlainFiles(repository, root, files, plan, leaves, settings, attributes, pause);
    for (const at of plan.writes) {
      if (plan.entries[at] !== null) continue;
      const leaf = leaves[at]!;
      plan.entries[at] = newEntry(leaf, writeLeaf(files, objects, settings, attributes, leaf));
      const waiting = pause();
      if (waiting) await waiting;
    }
    for (const path of plan.gitlinks) makeRoom(files, path, () => files.makeDirectory(path));
    const entries = plan.entries as IndexEntry[];
    const asBefore = cacheTree.oid === old.cacheTree?.oid &&
      entries.length === old.entries.length &&
      entries.every((entry, i) => entry === old.entries[i]);
    if (!asBefore) lock.commit({ entries, cacheTree });
    return {
      written: plan.writes.length,
      removed,
      kept: plan.kept,
      debris,
      unfiltered: unfilteredPaths(leaves, plan, settings, attributes),
      submodules: [...plan.gitlinks],
      outsideSparse: plan.outside.size,
    };
  } finally {
    lock.release();
  }
}

/** Writes, where there is much to write, what two threads can. The rest is left to be written. */
async function writePlainFiles(
  { objects }: Repository,
  root: string,
  files: WorkTree,
  plan: CheckoutPlan,
  leaves: readonly TreeLeaf[],
  settings: WorkTreeSettings,
  attributes: AttributeLookup,
  pause: () => Promise<void> | undefined,
): Promise<void> {
  if (plan.writes.length < ENOUGH_TO_SHARE) return;
  const plain = plan.writes.filter((at) => isPlain(leaves[at]!, settings, attributes));
  const list = plain.map((at) => leaves[at]!);
  const helper = startHelper(root, objects.directories(), list);
  if (helper === null) return;
  try {
    for (let stretch = helper.take(); stretch !== null; stretch = helper.take()) {
      for (let i = stretch[0]; i < stretch[1]; i++) {
        const stat = writePlain(files, objects, list[i]!);
        if (stat !== null) plan.entries[plain[i]!] = newEntry(list[i]!, stat);
        const waiting = pause();
        if (waiting) await waiting;
      }
    }
  } finally {
    // Also when told to stop: nothing of this may go on when the lock is given up.
    for (const [i, stat] of await helper.finish()) {
      plan.entries[plain[i]!] = newEntry(list[i]!, stat);
    }
  }
}

/** A torn index says nothing about any file. One that can't be read for another reason is an error. */
function readOrEmpty(path: string, objects: ObjectReader): IndexFile {
  try {
    return readIndex(path, objects);
  } catch (error) {
    if (!isAgentqError(error, "index-corrupt", "index-unsupported", "object-missing")) throw error;
    return { entries: [], cacheTree: null, timestamp: null };
  }
}

function refuseCollisions(leaves: readonly TreeLeaf[]): void {
  const pair = findCollision(leaves.map((leaf) => leaf.path), process.platform === "darwin");
  if (pair === null) return;
  throw unsafePathError(pair[1], `the same name as ${quotePath(pair[0])} on this file system`);
}

/**
 * Whether a path's bytes on disk are still those that its blob is written as: false where the
 * .gitattributes of the old tree and of the new one differ about it. git doesn't notice that, and
 * leaves a file as a fresh checkout would not write it.
 */
function convertedAlike(
  repository: Repository,
  settings: WorkTreeSettings,
  attributes: AttributeLookup,
  old: readonly IndexEntry[],
  leaves: readonly TreeLeaf[],
): (path: string) => boolean {
  const filesOf = (list: readonly TreeLeaf[]) =>
    list.filter(({ path }) => path === ".gitattributes" || path.endsWith("/.gitattributes"))
      .map(({ path, mode, oid }) => `${path}\0${mode}\0${oid}`).join("\0");
  if (filesOf(old) === filesOf(leaves)) return () => true;
  const before = repositoryAttributes(repository, leafFiles(repository.objects, old));
  const { eol } = settings;
  return (path) =>
    JSON.stringify(conversionFor(before.of(path), eol)) ===
      JSON.stringify(conversionFor(attributes.of(path), eol));
}

function cleanPlan(
  repository: Repository,
  files: WorkTree,
  leaves: readonly TreeLeaf[],
  plan: CheckoutPlan,
  ignoreCase: boolean,
) {
  const wanted = new Set<string>();
  const wantedDirectories = new Set<string>();
  for (const { path } of leaves) {
    if (plan.outside.has(path)) continue;
    wanted.add(path);
    for (let up = parentOf(path); up !== "" && !wantedDirectories.has(up); up = parentOf(up)) {
      wantedDirectories.add(up);
    }
  }
  return {
    files,
    ignores: repositoryIgnores(repository, leafFiles(repository.objects, leaves, ".gitignore")),
    wanted,
    wantedDirectories,
    gitlinks: plan.gitlinks,
    outside: plan.outside,
    isRepositoryLink: (name: string) => name === ".git" || (ignoreCase && /^\.git$/i.test(name)),
  };
}

function unfilteredPaths(
  leaves: readonly TreeLeaf[],
  plan: CheckoutPlan,
  settings: WorkTreeSettings,
  attributes: AttributeLookup,
): string[] {
  return leaves.filter(({ path, mode }) =>
    !isGitlinkMode(mode) && !isSymlinkMode(mode) && !plan.outside.has(path) &&
    conversionFor(attributes.of(path), settings.eol).filter !== null
  ).map(({ path }) => path);
}
