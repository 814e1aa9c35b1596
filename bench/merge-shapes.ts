/**
 * What merging inputs that are hard to merge costs, against their size.
 *
 *     bun bench/merge-shapes.ts [SHAPE…]
 *
 * Each shape is merged at sizes that double, in a process of its own. Prints the time, the time for one unit
 * of size, and peak memory, inputs included. A cost for a unit that grows with the size is one that blows up.
 */
import { spawnSync } from "node:child_process";
import { Buffer } from "node:buffer";
import process from "node:process";
import { serializeCommit } from "../src/git/commit.ts";
import { serializeTree } from "../src/git/tree.ts";
import type { ObjectDatabase, Oid } from "../src/git/types.ts";
import { mergeCommits } from "../src/merge/merge-commits.ts";
import { mergeTrees } from "../src/merge/merge-trees.ts";
import { overlay } from "../src/merge/overlay.ts";
import { mergeTexts } from "../src/merge/text/merge3.ts";

interface Shape {
  readonly unit: string;
  readonly sizes: readonly number[];
  /** Makes the input; what it gives back is measured. */
  prepare(n: number): () => unknown;
}

const labels = { ours: "ours", base: "base", theirs: "theirs" };
const lines = (n: number, make: (i: number) => string): string =>
  Array.from({ length: n }, (_, i) => make(i)).join("");
const text = (base: string, ours: string, theirs: string) => () =>
  mergeTexts(Buffer.from(base), Buffer.from(ours), Buffer.from(theirs), { labels });

function memory(): ObjectDatabase {
  const missing = (oid: Oid): never => {
    throw new Error(`object ${oid} is missing`);
  };
  return overlay({ read: missing, has: () => false, stat: missing });
}
const tree = (db: ObjectDatabase, entries: Iterable<[string, number, Oid]>): Oid =>
  db.write("tree", serializeTree([...entries].map(([path, mode, oid]) => ({ path, mode, oid }))));
const blob = (db: ObjectDatabase, content: string): Oid => db.write("blob", Buffer.from(content));
const DIRECTORY = 0o40000;
const FILE = 0o100644;

/** `n` files in directories of 100; `at` says what one holds. */
function files(db: ObjectDatabase, n: number, at: (i: number) => Oid): Oid {
  const directories: [string, number, Oid][] = [];
  for (let d = 0; d < n / 100; d++) {
    const entries = Array.from({ length: 100 }, (_, f): [string, number, Oid] => [
      `f${f}`,
      FILE,
      at(d * 100 + f),
    ]);
    directories.push([`d${d}`, DIRECTORY, tree(db, entries)]);
  }
  return tree(db, directories);
}

/** A text of forty lines, most of them `n`'s own. */
const source = (n: number, first: string): string =>
  first + lines(39, (i) => `value ${n * 7919 + i * 31} of file ${n}\n`);

const shapes: Record<string, Shape> = {
  "equal lines with one more at either end": {
    unit: "1,000 lines",
    sizes: [25_000, 50_000, 100_000, 200_000],
    prepare(n) {
      const base = lines(n, () => "same\n");
      return text(base, "first\n" + base, base + "last\n");
    },
  },
  "equal lines, fewer here and more there": {
    unit: "1,000 lines",
    sizes: [25_000, 50_000, 100_000, 200_000],
    prepare(n) {
      const base = lines(n, () => "same\n");
      return text(base, lines(n - n / 10, () => "same\n"), lines(n + n / 10, () => "same\n"));
    },
  },
  "fifty kinds of lines": {
    unit: "1,000 lines",
    sizes: [25_000, 50_000, 100_000, 200_000],
    prepare(n) {
      const base = lines(n, (i) => `${(i * 7919) % 50}\n`);
      return text(base, "first\n" + base, base + "last\n");
    },
  },
  "two kinds of lines, shuffled differently on each side": {
    unit: "1,000 lines",
    sizes: [2_500, 5_000, 10_000, 20_000, 40_000],
    prepare(n) {
      const shuffled = (seed: number): string => {
        let state = seed;
        return lines(n, () => {
          state = Math.imul(state, 1664525) + 1013904223 | 0;
          return (state >>> 16) & 1 ? "{\n" : "}\n";
        });
      };
      return text(shuffled(1), shuffled(2), shuffled(3));
    },
  },
  "every second line changed by both": {
    unit: "1,000 lines",
    sizes: [25_000, 50_000, 100_000, 200_000],
    prepare: (n) =>
      text(
        lines(n, (i) => `line ${i}\n`),
        lines(n, (i) => i % 2 ? `ours ${i}\n` : `line ${i}\n`),
        lines(n, (i) => i % 2 ? `theirs ${i}\n` : `line ${i}\n`),
      ),
  },
  "back to front": {
    unit: "1,000 lines",
    sizes: [5_000, 10_000, 20_000, 40_000],
    prepare(n) {
      const base = lines(n, (i) => `${i}\n`);
      return text(base, lines(n, (i) => `${n - i}\n`), base + "end\n");
    },
  },
  "long text, an edit at either end": {
    unit: "MB",
    sizes: [6, 12, 25, 50],
    prepare(n) {
      const line = (i: number): string =>
        `${i} is the number of this line, which is fifty long`.padEnd(49) + "\n";
      const count = n * 20_000;
      const base = lines(count, line);
      return text(
        base,
        base.replace("10 is", "10 was"),
        base.replace(`\n${count - 10} is`, `\n${count - 10} was`),
      );
    },
  },
  "a single line": {
    unit: "MB",
    sizes: [6, 12, 25, 50],
    prepare(n) {
      const base = "x".repeat(n * 1_000_000);
      return text(base, base + "ours", base + "theirs");
    },
  },
  "tree, ten files changed": {
    unit: "10,000 files",
    sizes: [12_500, 25_000, 50_000, 100_000],
    prepare(n) {
      const db = memory();
      const [same, one, two] = ["same\n", "ours\n", "theirs\n"].map((t) => blob(db, t));
      const every = n / 5;
      const base = files(db, n, () => same!);
      const ours = files(db, n, (i) => i % every === 1 ? one! : same!);
      const theirs = files(db, n, (i) => i % every === 2 ? two! : same!);
      return () => mergeTrees(db, base, ours, theirs);
    },
  },
  "tree, all files changed by one side, ten by the other": {
    unit: "10,000 files",
    sizes: [12_500, 25_000, 50_000, 100_000],
    prepare(n) {
      const db = memory();
      const [same, one, two] = ["same\n", "ours\n", "theirs\n"].map((t) => blob(db, t));
      const base = files(db, n, () => same!);
      const ours = files(db, n, () => one!);
      const theirs = files(db, n, (i) => i < 10 ? two! : same!);
      return () => mergeTrees(db, base, ours, theirs);
    },
  },
  "directories nested in each other": {
    unit: "1,000 levels",
    sizes: [500, 1_000, 2_000, 4_000],
    prepare(n) {
      const db = memory();
      const deep = (a: string, b: string): Oid => {
        let at = tree(db, [["a", FILE, blob(db, a)], ["b", FILE, blob(db, b)]]);
        for (let i = 0; i < n; i++) at = tree(db, [["d", DIRECTORY, at]]);
        return at;
      };
      const trees = [deep("1", "1"), deep("2", "1"), deep("1", "2")] as const;
      return () => mergeTrees(db, ...trees);
    },
  },
  "files renamed and edited, all of them": {
    unit: "100 files",
    sizes: [400, 800, 1_600, 3_200],
    prepare(n) {
      const db = memory();
      const named = (name: string, first: string): Oid =>
        tree(
          db,
          Array.from({ length: n }, (_, i): [string, number, Oid] => [
            `${name}${i}`,
            FILE,
            blob(db, source(i, first)),
          ]),
        );
      const trees = [
        named("old", "\n"),
        named("new", "ours\n"),
        named("old", "\ntheirs\n"),
      ] as const;
      return () => mergeTrees(db, ...trees);
    },
  },
  "a criss-cross on top of a criss-cross": {
    unit: "100 levels",
    sizes: [125, 250, 500, 1_000],
    prepare: (n) => braid(n, 2),
  },
  "a criss-cross of three": {
    unit: "level",
    sizes: [4, 8, 16, 32],
    prepare: (n) => braid(n, 3),
  },
};

/** `width` branches, each of which merges all the others `levels` times. */
function braid(levels: number, width: number): () => unknown {
  const db = memory();
  let time = 1;
  const commit = (content: string, parents: readonly Oid[]): Oid => {
    const who = `A <a@b> ${time++} +0000`;
    return db.write(
      "commit",
      serializeCommit({
        tree: tree(db, [["f", FILE, blob(db, content)]]),
        parents: [...parents],
        author: who,
        committer: who,
        message: "",
      }),
    );
  };
  const root = commit("root\n", []);
  let heads = Array.from({ length: width }, (_, i) => commit(`root\n${i}\n`, [root]));
  for (let level = 0; level < levels; level++) {
    heads = heads.map((head, i) =>
      commit(`root\n${level} ${i}\n`, [head, ...heads.filter((_, j) => j !== i)])
    );
  }
  return () => mergeCommits(db, heads[0]!, heads[1]!);
}

function measure({ unit, sizes, prepare }: Shape): void {
  const per = Number(/^[\d,]+/.exec(unit)?.[0].replaceAll(",", "") ?? 1);
  for (const size of sizes) {
    const run = prepare(size);
    const started = performance.now();
    run();
    const ms = performance.now() - started;
    const memoryMiB = process.resourceUsage().maxRSS / 1024;
    console.log(
      `  ${String(size).padStart(7)}  ${ms.toFixed(0).padStart(6)} ms  ` +
        `${(ms / size * per).toFixed(2).padStart(8)} ms per ${unit}  ` +
        `peak ${memoryMiB.toFixed(0)} MiB`,
    );
  }
}

const wanted = process.argv.slice(2);
const chosen = Object.keys(shapes).filter((name) =>
  wanted.length === 0 || wanted.some((word) => name.includes(word))
);
if (chosen.length === 1) {
  console.log(chosen[0]);
  measure(shapes[chosen[0]!]!);
} else {
  for (const name of chosen) {
    spawnSync(process.execPath, [process.argv[1]!, name], { stdio: "inherit" });
  }
}
