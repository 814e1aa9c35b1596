/** Thousands of made-up histories, each merged by git and by us. AGENTQ_MERGE_CASES sets how many. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { attributeLookup } from "../../src/git/attributes.ts";
import { openObjectStore } from "../../src/git/odb.ts";
import { writePack } from "../../src/git/pack-write.ts";
import { mergeCommits } from "../../src/merge/merge-commits.ts";
import { type Overlay, overlay } from "../../src/merge/overlay.ts";
import type { Oid } from "../../src/git/types.ts";
import type { MergeOptions } from "../../src/merge/types.ts";
import { git, makeRepo, tempDir, tryGit } from "../helpers/git.ts";
import { type Answer, gitAnswers, ownAnswer } from "./git-merge-tree.ts";
import { histories, type History, writeHistory } from "./histories.ts";

const CASES = Number(process.env.AGENTQ_MERGE_CASES ?? 1500);
const SEED = Number(process.env.AGENTQ_MERGE_SEED ?? 20260101);
const ATTRIBUTES = "*.u merge=union\n*.bin -merge\n*.m conflict-marker-size=11\nd/z.c -diff\n";

/** Stores what was made as one pack. */
function storeObjects(repo: string, made: Overlay): void {
  const list = made.newObjects().map(({ oid, type }) => ({ oid, type, name: "" }));
  const pack = Buffer.concat([...writePack(made, list)]);
  const run = tryGit(repo, ["index-pack", "--stdin"], { input: pack });
  assert.equal(run.status, 0, run.stderr);
}

/** Merges every history both ways; gives the indices that differ. */
function differing(
  cases: readonly History[],
  options: MergeOptions,
  config: readonly string[],
): { index: number; git: Answer | null; own: Answer | null }[] {
  const repo = makeRepo(tempDir());
  // git can't renormalize in a bare repository: it fails an assertion.
  const bare = !config.includes("merge.renormalize=true");
  git(repo, "config", "core.bare", String(bare));
  writeFileSync(join(repo, ".git/info/attributes"), ATTRIBUTES);
  const store = openObjectStore(join(repo, ".git/objects"));
  // Nothing of it is there yet: asking the disk for each object would only take time.
  const nothing = (oid: Oid): never => assert.fail(`${oid} isn't there`);
  const made = overlay({ has: () => false, read: nothing, stat: nothing });
  const pairs = cases.map((history) => writeHistory(made, history));
  storeObjects(repo, made);
  store.refresh();
  const lookup = attributeLookup({ files: () => null, info: Buffer.from(ATTRIBUTES) });
  const expected = gitAnswers(bare ? join(repo, ".git") : repo, pairs, config);
  const bad: { index: number; git: Answer | null; own: Answer | null }[] = [];
  pairs.forEach(([ours, theirs], index) => {
    const own = ownAnswer(mergeCommits(overlay(store), ours, theirs, {
      attributes: (path) => lookup.of(path),
      labels: { ours, theirs },
      abbreviate: (oid) => {
        let length = 7;
        while (store.prefixed(oid.slice(0, length), 2).length > 1) length++;
        return oid.slice(0, length);
      },
      ...options,
    }));
    const answer = expected[index]!;
    // Where git itself fails an assertion there is no answer to agree with; it must not be a clean one.
    if (answer === null ? own.clean : !isDeepStrictEqual(own, answer)) {
      bad.push({ index, git: answer, own });
    }
  });
  store.close();
  return bad;
}

/** All cases in one git process; on a difference the same cases one by one, to shrink it. */
function compareAll(
  seed: number,
  count: number,
  options: MergeOptions,
  config: readonly string[],
): void {
  const bad = differing(fc.sample(histories, { seed, numRuns: count }), options, config);
  if (bad.length === 0) return;
  fc.assert(
    fc.property(histories, (history) => {
      assert.deepEqual(differing([history], options, config), []);
    }),
    { seed, numRuns: count },
  );
  assert.fail(`${bad.length} of ${count} differ together, none alone: ${JSON.stringify(bad[0])}`);
}

describe("merging made-up histories gives what git gives", () => {
  test("with the default settings", () => compareAll(SEED, CASES, {}, []));
  test("with diff3 markers", () =>
    compareAll(SEED + 1, Math.ceil(CASES / 5), { style: "diff3" }, [
      "merge.conflictStyle=diff3",
      "core.abbrev=7",
    ]));
  test("with zdiff3 markers", () =>
    compareAll(SEED + 2, Math.ceil(CASES / 5), { style: "zdiff3" }, [
      "merge.conflictStyle=zdiff3",
      "core.abbrev=7",
    ]));
  test("without directory renames", () =>
    compareAll(SEED + 3, Math.ceil(CASES / 5), { directoryRenames: false }, [
      "merge.directoryRenames=false",
    ]));
  test("with directory renames applied", () =>
    compareAll(SEED + 4, Math.ceil(CASES / 5), { directoryRenames: true }, [
      "merge.directoryRenames=true",
    ]));
  test("with merge.renormalize", () =>
    compareAll(SEED + 6, Math.ceil(CASES / 5), { renormalize: (_, data) => data }, [
      "merge.renormalize=true",
    ]));
  test("with a rename limit", () =>
    compareAll(SEED + 5, Math.ceil(CASES / 5), { renameLimit: 1 }, ["merge.renameLimit=1"]));
});
