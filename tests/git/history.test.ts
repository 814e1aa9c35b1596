import assert from "node:assert/strict";
import process from "node:process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import fc from "fast-check";
import { isAgentqError } from "../../src/errors.ts";
import {
  type CommitReader,
  commitsBetween,
  countBetween,
  isAncestor,
  mergeBases,
} from "../../src/git/history.ts";
import { openRepository } from "../../src/git/repository.ts";
import { commit, git, makeRepo, tryGit } from "../helpers/git.ts";

/** A history to make: each commit's parents (indexes of earlier ones) and its time. */
interface Shape {
  parents: number[][];
  times: number[];
}

const shape = (clock: "true" | "coarse" | "lying"): fc.Arbitrary<Shape> =>
  fc.integer({ min: 2, max: 24 }).chain((count) =>
    fc.record({
      parents: fc.tuple(
        ...Array.from(
          { length: count },
          (_, i) =>
            i === 0
              ? fc.constant([] as number[])
              // Mostly near parents, so that there are long lines and criss-crosses.
              : fc.uniqueArray(
                fc.oneof(fc.nat(i - 1), fc.integer({ min: Math.max(0, i - 4), max: i - 1 })),
                {
                  minLength: 0,
                  maxLength: 3,
                },
              ),
        ),
      ),
      times: fc.array(fc.nat(clock === "lying" ? 60 : 2), { minLength: count, maxLength: count }),
    })
  ).map(({ parents, times }) => ({
    parents,
    times: clock === "lying" ? times : times.reduce<number[]>((all, step) => [
      ...all,
      (all.at(-1) ?? 0) + (clock === "coarse" ? step >> 1 : step + 1),
    ], []),
  }));

/** Makes the commits with git fast-import and returns their ids. */
function build(dir: string, { parents, times }: Shape): string[] {
  let stream = "";
  parents.forEach((list, i) => {
    const when = 1_700_000_000 + times[i]!;
    stream += `commit refs/heads/c${i}\nmark :${
      i + 1
    }\ncommitter C <c@example.com> ${when} +0000\n`;
    stream += `data ${String(i).length}\n${i}\n`;
    list.forEach((parent, n) => stream += `${n === 0 ? "from" : "merge"} :${parent + 1}\n`);
    stream += "\n";
  });
  const marks = join(dir, "marks");
  const run = tryGit(dir, ["fast-import", "--quiet", "--force", `--export-marks=${marks}`], {
    input: stream,
  });
  assert.equal(run.status, 0, run.stderr);
  return parents.map((_, i) => git(dir, "rev-parse", `refs/heads/c${i}`));
}

const lines = (text: string) => text.split("\n").filter((line) => line !== "");

function compareWithGit(made: Shape, graph: "none" | "all" | "part", exact: boolean): void {
  const dir = makeRepo();
  try {
    const oids = build(dir, made);
    if (graph === "all") git(dir, "commit-graph", "write", "--reachable");
    if (graph === "part") {
      const run = tryGit(dir, ["commit-graph", "write", "--stdin-commits"], {
        input: oids[oids.length >> 1] + "\n",
      });
      assert.equal(run.status, 0, run.stderr);
    }
    const { objects } = openRepository(dir);
    const pairs = oids.flatMap((a, i) =>
      oids.slice(i - 6 < 0 ? 0 : i - 6, i + 1).map((b) => [a, b] as const)
    );
    for (const [a, b] of pairs.slice(-12)) {
      const wanted = lines(tryGit(dir, ["merge-base", "--all", a, b]).stdout);
      assert.deepEqual(mergeBases(objects, a, b), wanted);
      const swapped = lines(tryGit(dir, ["merge-base", "--all", b, a]).stdout);
      assert.deepEqual(mergeBases(objects, b, a), swapped);
      assert.equal(isAncestor(objects, b, a), swapped.length === 1 && swapped[0] === b);
      assert.equal(isAncestor(objects, a, b), wanted.length === 1 && wanted[0] === a);
      // From the sets themselves, which no clock can mislead.
      const reach = (tip: string) => new Set(lines(git(dir, "rev-list", tip)));
      const inB = reach(b);
      const only = [...reach(a)].filter((oid) => !inB.has(oid)).sort();
      const found = commitsBetween(objects, b, a).sort();
      assert.equal(countBetween(objects, b, a), found.length);
      // Without generations, lying clocks may let some too many through, but never one too few.
      if (exact) assert.deepEqual(found, only);
      else assert.deepEqual(only.filter((oid) => !found.includes(oid)), []);
    }
    objects.close();
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

describe("history, compared with git on generated ones", () => {
  const runs = Number(process.env.AGENTQ_TEST_RUNS ?? 6);
  for (const clock of ["true", "coarse", "lying"] as const) {
    for (const graph of ["none", "all", "part"] as const) {
      test(`bases, containment and counts: ${clock} clock, commit-graph: ${graph}`, () => {
        fc.assert(
          fc.property(
            shape(clock),
            (made) => compareWithGit(made, graph, clock !== "lying" || graph === "all"),
          ),
          {
            numRuns: runs,
          },
        );
      });
    }
  }
});

/** Counts the commits a walk asks for. */
function counting(reader: CommitReader): CommitReader & { asked(): number } {
  let asked = 0;
  return {
    ...reader,
    read: (oid) => {
      asked++;
      return reader.read(oid);
    },
    commitInfo: undefined,
    asked: () => asked,
  };
}

describe("what walks cost and where they end", () => {
  const dir = makeRepo();
  let stream = "";
  for (let i = 0; i < 2000; i++) {
    stream += `commit refs/heads/main\ncommitter C <c@example.com> ${
      1_700_000_000 + i * 60
    } +0000\ndata 1\nx\n\n`;
  }
  assert.equal(tryGit(dir, ["fast-import", "--quiet"], { input: stream }).status, 0);
  const { objects } = openRepository(dir);
  const tip = git(dir, "rev-parse", "main");
  const back = (n: number) => git(dir, "rev-parse", `main~${n}`);

  test("a recent ancestor is found, and a newer commit ruled out, after reading few commits", () => {
    for (
      const [ancestor, descendant, answer] of [[back(20), tip, true], [
        tip,
        back(20),
        false,
      ]] as const
    ) {
      const reader = counting(objects);
      assert.equal(isAncestor(reader, ancestor, descendant), answer);
      assert.ok(reader.asked() < 30, String(reader.asked()));
    }
    const reader = counting(objects);
    assert.deepEqual(mergeBases(reader, back(20), tip), [back(20)]);
    assert.equal(countBetween(reader, back(20), tip), 20);
    assert.ok(reader.asked() < 80, String(reader.asked()));
    assert.equal(countBetween(objects, null, tip), 2000);
    assert.equal(countBetween(objects, tip, tip), 0);
  });

  test("a plain reader without commitInfo() gives the same answers", () => {
    const { read, has, stat } = objects;
    assert.deepEqual(mergeBases({ read, has, stat }, back(5), tip), [back(5)]);
  });

  test("histories that share nothing have no base", () => {
    git(dir, "checkout", "-q", "--orphan", "other");
    const other = commit(dir, "unrelated");
    assert.deepEqual(mergeBases(objects, other, tip), []);
    assert.equal(isAncestor(objects, other, tip), false);
  });

  test("a commit that is missing on the way is an error, not an answer", () => {
    const missing = "1".repeat(40);
    const input =
      `commit refs/heads/broken\ncommitter C <c@example.com> 1700000000 +0000\ndata 1\nx\n\n`;
    assert.equal(tryGit(dir, ["fast-import", "--quiet"], { input }).status, 0);
    const raw = `tree ${git(dir, "rev-parse", "broken^{tree}")}\nparent ${missing}\n` +
      "author A <a@example.com> 1700000001 +0000\ncommitter A <a@example.com> 1700000001 +0000\n\nx\n";
    const oid = objects.write("commit", new TextEncoder().encode(raw));
    const gone = (error: unknown) =>
      isAgentqError(error, "object-missing") && error.details?.oid === missing;
    assert.throws(() => mergeBases(objects, oid, tip), gone);
    assert.throws(() => isAncestor(objects, tip, oid), gone);
    assert.throws(() => countBetween(objects, tip, oid), gone);
    assert.throws(
      () => mergeBases(objects, git(dir, "rev-parse", "broken^{tree}"), tip),
      (error) => isAgentqError(error, "repository-corrupt"),
    );
  });
});
