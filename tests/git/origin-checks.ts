/** What every transport must do alike, for the tests of each. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { isAgentqError } from "../../src/errors.ts";
import { openRepository, type Repository } from "../../src/git/repository.ts";
import type { Oid, Origin } from "../../src/git/types.ts";
import { commit, git, tempDir } from "../helpers/git.ts";

/** Two commits in the clone `work`: one that `bare` has on a branch `feat`, one that it lacks. */
export function makeTwo({ bare, work }: { bare: string; work: string }): {
  feat: Oid;
  second: Oid;
} {
  git(work, "checkout", "-q", "-b", "feat");
  const feat = commit(work, "feat", { "dir/b.txt": "b feat\n" });
  git(work, "push", "-q", bare, "feat");
  git(work, "checkout", "-q", "main");
  const second = commit(work, "second", { "new/deep/c": "c\n" });
  return { feat, second };
}

/**
 * Reads commits that `bare` has by now and fetches them into a new clone, one upon the other: real git
 * finds both repositories whole.
 */
export async function checkReading(
  origin: Origin,
  { bare, work, first, feat, second }: Record<
    "bare" | "work" | "first" | "feat" | "second",
    string
  >,
): Promise<void> {
  const read = await origin.readCommits([second, feat, first, "f".repeat(40)]);
  assert.deepEqual([...read.keys()].sort(), [first, second, feat].sort());
  assert.equal(
    Buffer.from(read.get(second)!).toString(),
    git(work, "cat-file", "commit", second) + "\n",
  );

  const clone = tempDir();
  git(clone, "init", "-q", "-b", "main", ".");
  const target = openRepository(clone).objects;
  await origin.fetch([feat], target);
  await origin.fetch([second], target, { haves: [feat] });
  git(clone, "update-ref", "refs/heads/main", second);
  git(clone, "update-ref", "refs/heads/feat", feat);
  assert.equal(git(clone, "fsck", "--full", "--strict"), "");
  await assert.rejects(
    origin.fetch(["f".repeat(40)], target),
    (error) => isAgentqError(error, "object-missing"),
  );
  assert.equal(git(bare, "fsck", "--full", "--strict"), "");
}

/**
 * Clones that lack history on purpose push what is new to them alone, also when the branch has moved to a
 * commit that they have never seen.
 * @param open the origin of `bare`, for a clone of it
 */
export async function checkPushFromPart(
  { bare, work }: { bare: string; work: string },
  open: (repository: Repository) => Promise<Origin>,
): Promise<void> {
  for (let i = 0; i < 4; i++) commit(work, `old ${i}`, { "dir/b.txt": `${i}\n`, [`f${i}`]: "x\n" });
  git(work, "push", "-q", bare, "main");
  git(bare, "config", "uploadpack.allowFilter", "true");
  const parts = [["--depth=1"], ["--depth=2"], ["--filter=blob:none"], ["--filter=tree:0"]];
  for (const [i, part] of parts.entries()) {
    const clone = tempDir();
    git(clone, "clone", "-q", ...part, `file://${bare}`, ".");
    const mine = commit(clone, "mine", { [`mine${i}`]: "m\n" });
    const tip = commit(work, "by somebody else", { "dir/b.txt": `else ${i}\n` });
    git(work, "push", "-q", bare, "main");
    const repository = openRepository(clone);
    const origin = await open(repository);
    try {
      const ref = `refs/heads/mine${i}`;
      const outcome = await origin.push(
        [{ ref, old: null, new: mine }],
        repository.objects,
        { remoteHas: [tip] },
      );
      assert.equal(outcome.status, "won", part.join());
      assert.equal(git(bare, "rev-parse", ref), mine);
      assert.equal(git(bare, "fsck", "--full", "--strict", "--no-dangling"), "");
    } finally {
      origin.close();
      repository.close();
    }
  }
}
