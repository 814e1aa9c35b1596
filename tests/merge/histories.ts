/** Made-up histories: trees, edits, renames, types, criss-cross merges, written into a real repository. */
import { Buffer } from "node:buffer";
import fc from "fast-check";
import { serializeCommit } from "../../src/git/commit.ts";
import { MODE, serializeTree } from "../../src/git/tree.ts";
import type { ObjectDatabase, Oid } from "../../src/git/types.ts";

export interface File {
  readonly mode: number;
  readonly lines: readonly string[];
}

/** What a commit does to its first parent's files. Numbers choose among what is there. */
export type Step =
  | {
    readonly kind: "edit";
    readonly file: number;
    readonly at: number;
    readonly remove: number;
    readonly add: readonly string[];
  }
  | { readonly kind: "remove"; readonly file: number }
  | { readonly kind: "add"; readonly path: string; readonly file: File }
  | { readonly kind: "move"; readonly file: number; readonly to: string }
  | { readonly kind: "moveDirectory"; readonly file: number; readonly to: string }
  | { readonly kind: "mode"; readonly file: number; readonly mode: number };

export interface History {
  readonly files: Readonly<Record<string, File>>;
  /** Commits after the first; parents are indices of earlier ones (taken modulo). */
  readonly commits: readonly {
    readonly parents: readonly number[];
    readonly steps: readonly Step[];
  }[];
}

const PATHS = [
  "a",
  "b.c",
  "b",
  "c.u",
  "c.bin",
  "c.m",
  "d/x",
  "d/y",
  "d/z.c",
  "d/e/x",
  "d/e/y",
  "d/e/f/x",
  "g/x",
  "g/y",
  "g/e/x",
  "b/x",
  "d-x",
  "d.c",
  "h/i/j/x",
  "h/i/j/y",
  "h/i/x",
];
const DIRECTORIES = ["d", "g", "h", "k", "d/e", "h/i", "k/l", "b", "h/i/j", "d/k"];
const MODES = [MODE.file, MODE.file, MODE.file, MODE.executable, MODE.symlink, MODE.gitlink];

const line = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.constantFrom("one\n", "two\n", "three\n", "{\n", "}\n", "\n", "x\r\n"),
  },
  { weight: 5, arbitrary: fc.integer({ min: 0, max: 40 }).map((n) => `line ${n} of the text\n`) },
  { weight: 1, arbitrary: fc.constantFrom("no end", "nul\0\n", "\xff\xfe\n", "=======\n") },
);
const lines = fc.array(line, { maxLength: 14 });
const file = fc.record({ mode: fc.constantFrom(...MODES), lines });
const path = fc.constantFrom(...PATHS);
const index = fc.nat(30);

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("edit" as const),
      file: index,
      at: fc.nat(14),
      remove: fc.nat(3),
      add: fc.array(line, { maxLength: 3 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("remove" as const), file: index }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("add" as const), path, file }) },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant("move" as const), file: index, to: path }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("moveDirectory" as const),
      file: index,
      to: fc.constantFrom(...DIRECTORIES),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("mode" as const),
      file: index,
      mode: fc.constantFrom(...MODES),
    }),
  },
);

const steps = fc.array(step, { maxLength: 5 });

/** Half of them one base and two sides, half a graph with merges. */
export const histories: fc.Arbitrary<History> = fc.record({
  files: fc.dictionary(path, file, { minKeys: 1, maxKeys: 12 }),
  commits: fc.oneof(
    fc.tuple(steps, steps).map((
      [a, b],
    ) => [{ parents: [0], steps: a }, { parents: [0], steps: b }]),
    fc.array(fc.record({ parents: fc.array(fc.nat(9), { minLength: 1, maxLength: 2 }), steps }), {
      minLength: 4,
      maxLength: 8,
    }),
    // Criss-cross: 1 and 2 from 0, 3 and 4 both merge them, 5 and 6 go on.
    fc.tuple(steps, steps, steps, steps, steps, steps).map(([a, b, c, d, e, f]) => [
      { parents: [0], steps: a },
      { parents: [0], steps: b },
      { parents: [1, 2], steps: c },
      { parents: [2, 1], steps: d },
      { parents: [3], steps: e },
      { parents: [4], steps: f },
    ]),
  ),
});

type Tree = Map<string, File>;

/** Puts a file somewhere, removing what can't be there with it. */
function put(tree: Tree, path: string, file: File): void {
  for (let slash = path.indexOf("/"); slash >= 0; slash = path.indexOf("/", slash + 1)) {
    tree.delete(path.slice(0, slash));
  }
  for (const other of [...tree.keys()]) if (other.startsWith(path + "/")) tree.delete(other);
  tree.set(path, file);
}

function apply(tree: Tree, step: Step): void {
  if (step.kind === "add") return put(tree, step.path, step.file);
  const paths = [...tree.keys()].sort();
  if (paths.length === 0) return;
  const path = paths[step.file % paths.length]!;
  const file = tree.get(path)!;
  switch (step.kind) {
    case "edit": {
      const edited = [...file.lines];
      edited.splice(Math.min(step.at, edited.length), step.remove, ...step.add);
      tree.set(path, { ...file, lines: edited });
      break;
    }
    case "remove":
      tree.delete(path);
      break;
    case "move":
      tree.delete(path);
      put(tree, step.to, file);
      break;
    case "moveDirectory": {
      const directory = path.slice(0, Math.max(0, path.lastIndexOf("/")));
      if (directory === "" || step.to.startsWith(directory)) return;
      for (const old of paths) {
        if (!old.startsWith(directory + "/")) continue;
        const moved = tree.get(old)!;
        tree.delete(old);
        put(tree, step.to + old.slice(directory.length), moved);
      }
      break;
    }
    case "mode":
      tree.set(path, { ...file, mode: step.mode });
      break;
  }
}

function writeTree(db: ObjectDatabase, tree: Tree): Oid {
  const below = new Map<string, Tree>();
  const entries: { mode: number; path: string; oid: Oid }[] = [];
  for (const [path, file] of tree) {
    const slash = path.indexOf("/");
    if (slash >= 0) {
      const name = path.slice(0, slash);
      if (!below.has(name)) below.set(name, new Map());
      below.get(name)!.set(path.slice(slash + 1), file);
    } else if (file.mode === MODE.gitlink) {
      const id = file.lines.length.toString(16).repeat(40).slice(0, 40);
      entries.push({ mode: file.mode, path, oid: id.replace(/^0+$/, "1".repeat(40)) });
    } else {
      const data = Buffer.from(
        file.lines.join("") || (file.mode === MODE.symlink ? "to" : ""),
        "latin1",
      );
      entries.push({ mode: file.mode, path, oid: db.write("blob", data) });
    }
  }
  for (const [name, inner] of below) {
    entries.push({ mode: MODE.tree, path: name, oid: writeTree(db, inner) });
  }
  return db.write("tree", serializeTree(entries));
}

/** Writes the commits; gives the last two, which are to be merged. */
export function writeHistory(db: ObjectDatabase, history: History): [Oid, Oid] {
  const trees: Tree[] = [];
  const oids: Oid[] = [];
  const add = (tree: Tree, parents: Oid[]): void => {
    const who = `A <a@b> ${1700000000 + oids.length * 10} +0000`;
    oids.push(db.write(
      "commit",
      serializeCommit({
        tree: writeTree(db, tree),
        parents,
        author: who,
        committer: who,
        message: `${oids.length}\n`,
      }),
    ));
    trees.push(tree);
  };
  const first: Tree = new Map();
  for (const [path, file] of Object.entries(history.files)) put(first, path, file);
  add(first, []);
  for (const commit of history.commits) {
    const parents = [...new Set(commit.parents.map((n) => n % oids.length))];
    const tree = new Map(trees[parents[0]!]!);
    // A merge brings something of its other parent along.
    if (parents[1] !== undefined) {
      for (const [path, file] of trees[parents[1]]!) if (!tree.has(path)) put(tree, path, file);
    }
    for (const step of commit.steps) apply(tree, step);
    add(tree, parents.map((n) => oids[n]!));
  }
  return [oids[oids.length - 2]!, oids[oids.length - 1]!];
}
