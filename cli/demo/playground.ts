/** The demo's throwaway origin and clones, made without git: what `git init` and `git clone` would make. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Buffer } from "node:buffer";
import { checkoutTree } from "../../src/git/checkout.ts";
import { serializeCommit } from "../../src/git/commit.ts";
import { initRepository } from "../../src/git/init.ts";
import { openOrigin } from "../../src/git/origin.ts";
import { updateRef } from "../../src/git/ref-update.ts";
import { openRepository, type Repository } from "../../src/git/repository.ts";
import { MODE, serializeTree } from "../../src/git/tree.ts";
import type { Oid } from "../../src/git/types.ts";

const BRANCH = "refs/heads/main";

/** File name → content, all at the top of the tree. */
export type Files = Readonly<Record<string, string>>;

function writeCommit(
  repository: Repository,
  files: Files,
  parents: readonly Oid[],
  author: string,
  message: string,
): Oid {
  const { objects } = repository;
  const line = `${author} <${author}@demo.invalid> ${Math.floor(Date.now() / 1000)} +0000`;
  return objects.batch(() => {
    const entries = Object.entries(files).map(([path, content]) => ({
      mode: MODE.file,
      path,
      oid: objects.write("blob", Buffer.from(content)),
    }));
    const tree = objects.write("tree", serializeTree(entries));
    const commit = serializeCommit({
      tree,
      parents: [...parents],
      author: line,
      committer: line,
      message: `${message}\n`,
    });
    return objects.write("commit", commit);
  });
}

/** A bare origin whose branch `main` holds `files`; returns its first commit. */
export function makeOrigin(dir: string, files: Files): Oid {
  initRepository(dir, {
    bare: true,
    branch: "main",
    config: "[receive]\n\tdenyNonFastForwards = true\n\tdenyDeletes = true\n",
  });
  const repository = openRepository(dir);
  const first = writeCommit(repository, files, [], "founder", "the program so far");
  updateRef(repository, { ref: BRANCH, new: first, old: null });
  repository.close();
  return first;
}

export interface Clone {
  readonly dir: string;
  readonly repository: Repository;
}

/** A clone of `origin` with `tip` checked out on `main`. */
export async function makeClone(dir: string, origin: string, tip: Oid): Promise<Clone> {
  initRepository(dir, {
    bare: false,
    branch: "main",
    config: `[remote "origin"]\n\turl = ${
      JSON.stringify(origin)
    }\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n`,
  });
  const repository = openRepository(dir);
  const remote = await openOrigin("origin", { repository });
  await remote.fetch([tip], repository.objects);
  remote.close();
  updateRef(repository, { ref: "refs/remotes/origin/main", new: tip });
  updateRef(repository, { ref: BRANCH, new: tip });
  await checkout(repository, tip);
  return { dir, repository };
}

async function checkout(repository: Repository, commit: Oid): Promise<void> {
  const { parseCommit } = await import("../../src/git/commit.ts");
  await checkoutTree(repository, parseCommit(repository.objects.read(commit).data).tree);
}

/** Commits `files` (the whole tree) on the clone's branch, with further `parents` for a merge. */
export async function commitFiles(
  clone: Clone,
  author: string,
  message: string,
  files: Files,
  parents: readonly Oid[] = [],
): Promise<Oid> {
  const head = clone.repository.head().oid!;
  const made = writeCommit(clone.repository, files, [head, ...parents], author, message);
  updateRef(clone.repository, { ref: BRANCH, new: made, old: head });
  await checkout(clone.repository, made);
  return made;
}

export function readFile(clone: Clone, name: string): string {
  return readFileSync(join(clone.dir, name), "utf8");
}

export function writeFile(clone: Clone, name: string, content: string): void {
  writeFileSync(join(clone.dir, name), content);
}
