/**
 * Makes losses in the merge commits of a repository that the gate lets through, and counts which of them it misses.
 *
 *     bun bench/gate-losses.ts REPO [N] [--clean] [--show] [--seed S]
 *
 * In each path that was in conflict (`--clean`: that both sides changed, where git merges cleanly) up to three of a
 * kind are made, one at a time, by a generator that begins at S:
 *
 *     line   one that only one side put in, or edited, is taken out
 *     edit   one that a side edited is as it was
 *     word   one that a side put in lacks a word
 *     hunk   all that a side put in at a place is gone, with what stood there back
 *     back   lines that a side deleted are back
 *     side   the file is as one side has it
 *     hunks  so are all that are in conflict; the rest is as git merges it
 */
import { spawnSync } from "node:child_process";
import { Buffer } from "node:buffer";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { isAgentqError } from "../src/errors.ts";
import { openObjectStore } from "../src/git/odb.ts";
import { isFileMode, parseTree, serializeTree, type TreeEntry } from "../src/git/tree.ts";
import type { Oid } from "../src/git/types.ts";
import { commitTree, inspectMerge } from "../src/merge/gate/merge.ts";
import { commitGraph } from "../src/merge/graph.ts";
import { mergeCommits } from "../src/merge/merge-commits.ts";
import { type Overlay, overlay } from "../src/merge/overlay.ts";
import { atOnce } from "../src/merge/steps.ts";
import { diffLines } from "../src/merge/text/diff.ts";
import { classifyLines, splitLines } from "../src/merge/text/lines.ts";

const args = process.argv.slice(2);
const flag = (name: string): boolean =>
  args.includes(name) && args.splice(args.indexOf(name), 1).length > 0;
const seedAt = args.indexOf("--seed");
let seed = seedAt < 0 ? 1 : Number(args.splice(seedAt, 2)[1]);
const [show, clean] = [flag("--show"), flag("--clean")];
const [repo, limit] = args;
if (repo === undefined) {
  console.error("usage: bun bench/gate-losses.ts REPO [N] [--clean] [--show] [--seed S]");
  process.exit(64);
}

const OF_A_KIND = 3;
const PATHS = 6;
const LINES = 20_000;

const git = (...argv: string[]): string =>
  spawnSync("git", ["-C", repo, ...argv], { maxBuffer: 1 << 30, encoding: "utf8" }).stdout.trim();
const store = openObjectStore(`${git("rev-parse", "--absolute-git-dir")}/objects`);
const graph = commitGraph(store);

/** Numerical Recipes' generator. */
function below(n: number): number {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return Math.floor(seed / 2 ** 32 * n);
}

function entryAt(db: Overlay, tree: Oid, path: readonly string[]): TreeEntry | undefined {
  const found = parseTree(db.read(tree).data).find((entry) => entry.path === path[0]);
  return found && path.length > 1 ? entryAt(db, found.oid, path.slice(1)) : found;
}

/** The tree with another blob at a path that it has. */
function withBlob(db: Overlay, tree: Oid, path: readonly string[], blob: Oid): Oid {
  const entries = parseTree(db.read(tree).data).map((entry) =>
    entry.path !== path[0] ? entry : {
      ...entry,
      oid: path.length === 1 ? blob : withBlob(db, entry.oid, path.slice(1), blob),
    }
  );
  return db.write("tree", serializeTree(entries));
}

const linesIn = (text: string): string[] => text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
const hasWord = (line: string): boolean => /\w/.test(line);
const wordsOf = (line: string): string => line.replace(/\W+/g, " ").trim();

interface Loss {
  readonly kind: "line" | "edit" | "word" | "hunk" | "back" | "side" | "hunks";
  readonly parent: 1 | 2;
  readonly text: readonly string[];
  readonly what: string;
}

/** What git makes of a text with the other side's version of each conflict. */
function hunksOf(
  side: readonly string[],
  base: readonly string[],
  other: readonly string[],
): string[] {
  const dir = mkdtempSync(join(tmpdir(), "gate-losses-"));
  const files = [side, base, other].map((lines, i) => {
    writeFileSync(join(dir, `${i}`), lines.join(""), "latin1");
    return `${i}`;
  });
  const argv = ["merge-file", "-p", "--theirs", ...files];
  const { stdout } = spawnSync("git", argv, { cwd: dir, encoding: "latin1", maxBuffer: 1 << 30 });
  rmSync(dir, { recursive: true });
  return linesIn(stdout);
}

/** All losses that can be made in a text of which nothing is lost. */
function lossesIn(
  base: readonly string[],
  sides: readonly [readonly string[], readonly string[]],
  result: readonly string[],
): Loss[] {
  const places = new Map<string, number[]>();
  result.forEach((line, i) => places.set(line, [...places.get(line) ?? [], i]));
  const onlyPlace = (line: string | undefined): number | undefined => {
    const found = line === undefined ? undefined : places.get(line);
    return found?.length === 1 ? found[0] : undefined;
  };
  const losses: Loss[] = [];
  for (const parent of [1, 2] as const) {
    const [side, other] = [sides[parent - 1]!, sides[2 - parent]!];
    // Of lines that differ in signs and blanks there is no saying which way is a loss.
    const known = new Set([...base, ...other].map(wordsOf));
    const isOwn = (line: string): boolean => hasWord(line) && !known.has(wordsOf(line));
    const asOther: [Loss["kind"], readonly string[]][] = [["side", other]];
    if (!clean) asOther.push(["hunks", hunksOf(side, base, other)]);
    for (const [kind, text] of asOther) {
      const there = new Set(text);
      const gone = side.filter((line) => isOwn(line) && places.has(line) && !there.has(line));
      if (gone.length > 0) losses.push({ kind, parent, text, what: gone.join("").trimEnd() });
    }
    const texts = [base, side].map((lines) => splitLines(Buffer.from(lines.join(""), "latin1")));
    const { ids, tables } = classifyLines(texts);
    for (const { at, removed, newAt, added } of diffLines(ids[0]!, ids[1]!, tables, "histogram")) {
      const [old, put] = [base.slice(at, at + removed), side.slice(newAt, newAt + added)];
      const add = (kind: Loss["kind"], text: readonly string[], what: readonly string[]): void => {
        losses.push({ kind, parent, text, what: what.join("").trimEnd() });
      };
      put.forEach((line, i) => {
        const place = onlyPlace(line);
        if (place === undefined || !isOwn(line)) return;
        add("line", result.toSpliced(place, 1), [line]);
        const all = [...line.matchAll(/\w+\W*/g)];
        if (removed === 0 && all.length > 3) {
          const { index, 0: word } = all[below(all.length)]!;
          const less = line.slice(0, index) + line.slice(index + word.trimEnd().length);
          add("word", result.toSpliced(place, 1, less), [line, less]);
        }
        const was = old[i];
        if (removed !== added || was === undefined || places.has(was) || !hasWord(was)) return;
        if (was.trim() !== line.trim()) add("edit", result.toSpliced(place, 1, was), [line]);
      });
      const first = result.findIndex((_, i) => put.every((line, n) => result[i + n] === line));
      const rest = result.slice(first + added).join("");
      if (added > 1 && first >= 0 && put.some(isOwn) && !rest.includes(put.join(""))) {
        add("hunk", result.toSpliced(first, added, ...old), put);
      }
      const before = onlyPlace(base[at - 1]);
      const isGone = old.some(hasWord) && old.every((line) => !hasWord(line) || !places.has(line));
      if (added === 0 && before !== undefined && isGone) {
        add("back", result.toSpliced(before + 1, 0, ...old), old);
      }
    }
  }
  return losses;
}

/** Paths that both sides changed; or, of a merge that git leaves to people, those that they settled. */
function pathsOf(merge: Oid, base: Oid, parents: readonly [Oid, Oid]): string[] {
  if (!clean) {
    const settled = git("show", "--remerge-diff", "--name-only", "--format=", merge).split("\n");
    return [...new Set(settled)].filter((path) => path !== "");
  }
  const [one, two] = parents.map((parent) => git("diff", "--name-only", base, parent).split("\n"));
  return one!.filter((path) => path !== "" && two!.includes(path));
}

const counts: Record<string, number> = {};
const count = (name: string): void => {
  counts[name] = (counts[name] ?? 0) + 1;
};

function tryMerge(merge: Oid, parents: readonly [Oid, Oid]): void {
  const db = overlay(store);
  const merged = mergeCommits(db, parents[0], parents[1], { graph, allowUnrelated: true });
  const [base, more] = merged.bases;
  if (base === undefined || more !== undefined || merged.clean !== clean) return;
  const tree = commitTree(db, merge);
  if (atOnce(inspectMerge(db, graph, parents, tree)).length > 0) return;
  count("merges");
  for (const path of pathsOf(merge, base, parents).slice(0, PATHS)) {
    const names = path.split("/");
    const entries = [...[base, ...parents].map((commit) => commitTree(db, commit)), tree]
      .map((one) => entryAt(db, one, names));
    if (entries.some((entry) => !entry || !isFileMode(entry.mode))) continue;
    const texts = entries.map(({ oid } = entries[0]!) =>
      linesIn(Buffer.from(db.read(oid).data).toString("latin1"))
    ) as [string[], string[], string[], string[]];
    if (texts.some((lines) => lines.length > LINES || lines.some((line) => line.includes("\0")))) {
      continue;
    }
    const all = Map.groupBy(lossesIn(texts[0], [texts[1], texts[2]], texts[3]), (one) => one.kind);
    for (const [kind, losses] of all) {
      for (let n = 0; n < OF_A_KIND && losses.length > 0; n++) {
        const [loss] = losses.splice(below(losses.length), 1) as [Loss];
        const blob = db.write("blob", Buffer.from(loss.text.join(""), "latin1"));
        count(kind);
        const lossy = withBlob(db, tree, names, blob);
        if (atOnce(inspectMerge(db, graph, parents, lossy)).length > 0) continue;
        count(`${kind}: missed`);
        if (show) console.log(`${kind} of parent ${loss.parent}: ${merge} ${path}\n${loss.what}`);
      }
    }
  }
}

const lines = git("rev-list", "--merges", "--parents", "--all").split("\n");
for (const line of limit ? lines.slice(0, Number(limit)) : lines) {
  const [merge, one, two, three] = line.split(" ");
  if (merge === undefined || one === undefined || two === undefined || three !== undefined) {
    continue;
  }
  try {
    tryMerge(merge, [one, two]);
  } catch (error) {
    if (!isAgentqError(error, "object-missing")) throw error;
    count("objects missing in this copy");
  }
}
console.log(JSON.stringify({ repo, ...counts }, null, 1));
