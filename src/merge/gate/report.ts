/** What the gate tells whoever has to mend a candidate. */
import { Buffer } from "node:buffer";
import { shownPath, shownSentence } from "../../git/path-quote.ts";
import type { Oid } from "../../git/types.ts";
import type { Loss } from "./loss.ts";
import { linesOfText } from "./texts.ts";
import { pathText } from "../state.ts";
import type { MergeResult } from "../types.ts";

/** At most this many paths are spelled out. */
const SHOWN = 50;
/** So many lines of files are quoted, of each path and of all; and so much of a line. */
const QUOTED_OF_PATH = 5;
const QUOTED = 40;
const WIDTH = 120;
/** Commands that stop where they would overwrite something. */
const STOPS = /(?:git diff --quiet [0-9a-f]+ --|test ! -e) /;

/** The merge with the branch has conflicts. */
export function mergeReport(merge: MergeResult): string {
  const paths = merge.conflicts.map(({ path }) => pathText(path));
  const lines = [
    `Merging the candidate ${short(merge.theirs)} into the branch, which is at ${
      short(merge.ours)
    }, has conflicts:`,
    ...list(
      merge.conflicts.map(({ path, type, regions }) =>
        `${shownPath(pathText(path))} (${type}${
          regions.length > 0 ? `, ${linesOfText(regions)}` : ""
        })`
      ),
    ),
    ...merge.messages.slice(0, SHOWN).map((message) => `  ${shownSentence(message, paths)}`),
    "",
    "Next: merge the branch into the candidate, settle each path so that both sides' changes are in it,",
    "commit the merge and submit again. Where the merge was left in progress in the clone: edit the marked",
    "files, `git add` them (`git rm` those that are to be gone), `git commit`.",
  ];
  return lines.join("\n") + "\n";
}

export type LaterMerges = "none" | "plain" | "adapted";

/** A merge commit of the candidate. */
export interface MergeCommit {
  readonly oid: Oid;
  readonly candidate: Oid;
  /** The merges among the commits after it: all as merging makes them, or with something adapted in them. */
  readonly laterMerges: LaterMerges;
  /** Its parents. */
  readonly sides: readonly { readonly oid: Oid; readonly onBranch: boolean }[];
}

/** A merge that lost work. */
export interface RefusedMerge {
  /** Null for the merge with the branch itself. */
  readonly merge: MergeCommit | null;
  readonly losses: readonly (Loss & { readonly isConflict: boolean })[];
  /** What brings it back, path by path: one line each. */
  readonly advice: readonly string[];
}

/** Merges that lost work, and what to do about it. */
export function refusalReport(bad: readonly RefusedMerge[]): string {
  const lines: string[] = [];
  let room = QUOTED;
  for (const { merge, losses, advice } of bad) {
    lines.push(
      merge === null
        ? "The merge with the branch loses work:"
        : `The merge commit ${short(merge.oid)} loses work:`,
    );
    for (const { path, parent, what, regions, text } of losses.slice(0, SHOWN)) {
      const where = regions.length > 0 ? ` (${linesOfText(regions)})` : "";
      const side = parent === 0 ? "" : ` [changed ${changedBy(merge, parent)}]`;
      lines.push(`  ${shownPath(pathText(path))}: ${what}${where}${side}`);
      const shown = text.slice(0, Math.min(QUOTED_OF_PATH, room));
      room -= shown.length;
      lines.push(...shown.map((line) => `    > ${quoted(line)}`));
    }
    if (losses.length > SHOWN) lines.push(`  … and ${losses.length - SHOWN} more`);
    lines.push(...advice.map((line) => `  ${line}`));
    if (merge !== null) lines.push(...remake(merge));
    lines.push("");
  }
  const all = bad.flatMap(({ losses }) => losses);
  const marked = all.some(({ kind }) => kind === "markers");
  const others = all.filter(({ kind }) => kind !== "markers");
  const adaptable = others.filter(({ kind }) => kind === "text" || kind === "whole");
  const next: string[] = [];
  if (marked) {
    next.push(
      "Take the conflict markers out so that both sides' changes are in it, commit, submit again.",
    );
  }
  if (others.length > 0) {
    next.push(
      "Put what is missing back in a new commit (or make the merge again), then submit again.",
      ...adaptable.some(({ isConflict }) => !isConflict)
        ? [
          "If nothing is missing but adapted to the rest: make the merge as git makes it, commit it, and adapt in an",
          "ordinary commit after it.",
        ]
        : [],
      ...adaptable.some(({ isConflict }) => isConflict)
        ? [
          "If nothing is missing, and a path was in conflict: make the merge again, with all that both sides put in and",
          "nothing that one took out, though it doesn't fit yet; commit it, and adapt in an ordinary commit after it.",
        ]
        : [],
      ...bad.some(({ advice }) => advice.some((line) => STOPS.test(line)))
        ? [
          "A command that stops at `git diff --quiet` or `test ! -e` would overwrite what was made of the path since the",
          "candidate: commit that, and submit again.",
        ]
        : [],
      "If the loss is meant, say so: submit with --drop PATH for each path (globs allowed).",
    );
  }
  if (marked && others.length > 0) next.push("Markers can't be dropped.");
  lines.push(...next.map((line, i) => i === 0 ? `Next: ${line}` : line));
  return lines.join("\n") + "\n";
}

/** The commands that make a merge commit again, and bring it to the branch with whatever was committed since. */
function remake({ oid, candidate, laterMerges, sides }: MergeCommit): string[] {
  const at = short(oid);
  const others = sides.slice(1).map((_, i) => `git merge --no-ff --no-edit ${at}^${i + 2}`);
  const isOctopus = others.length > 1;
  // What a merge commit adapted is in nothing but itself: made again, it would be without it.
  const onTop = `fix=$(git commit-tree -p ${at} -m 'What the merge ${at} lost' 'HEAD^{tree}') && ` +
    `git checkout BRANCH && git cherry-pick "$fix"`;
  const since = `test -z "$(git rev-list --merges ${short(candidate)}..BRANCH)"`;
  const rebase = `git rebase ${laterMerges === "none" ? "" : "-r "}--onto HEAD ${at} BRANCH`;
  return [
    `  Or see what merging gives${isOctopus ? ", one parent after the other" : ""}: ` +
    `git checkout --detach ${at}^1 && ${others.join(" && ")}`,
    ...isOctopus
      ? ["  (Where one stops at a conflict, settle and commit it, and go on with the next.)"]
      : [],
    `  To go on from there, settle and commit it, take over what else the refused merge made (git diff HEAD ${at}),`,
    ...laterMerges === "adapted"
      ? [
        "  commit that too. A merge after it adapted something, which would be gone from one made again: put the difference",
        `  on top: ${onTop}`,
      ]
      : [
        `  commit that too, then: ${since} && ${rebase}`,
        `  Where that stops, BRANCH has merges made since: put the difference on top: ${onTop}`,
      ],
  ];
}

/** A line of a file: what isn't text in it, or acts on a terminal, as escapes. */
function quoted(line: Uint8Array): string {
  const text = Buffer.from(line.buffer, line.byteOffset, Math.min(line.length, 4 * WIDTH))
    .toString("utf8").replace(/\r?\n$/, "")
    .replace(
      /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
      (char) => char === "\t" ? " " : `\\u{${char.codePointAt(0)!.toString(16)}}`,
    );
  return text.length > WIDTH ? `${text.slice(0, WIDTH)}…` : text;
}

/** Whose change it is: the merge with the branch has the branch first. */
function changedBy(merge: RefusedMerge["merge"], parent: 1 | 2): string {
  if (merge === null) return parent === 1 ? "on the branch" : "by the candidate";
  const { sides } = merge;
  // An octopus is merged one parent after the other: what came before the last is together the first side.
  if (parent === 1 && sides.length > 2) return "in one of the parents before the last";
  const n = parent === 1 ? 1 : sides.length;
  const { oid, onBranch } = sides[n - 1]!;
  return `${onBranch ? "on the branch" : "by the candidate"}, ${short(oid)}, parent ${n}`;
}

function list(items: readonly string[]): string[] {
  const shown = items.slice(0, SHOWN).map((item) => `  ${item}`);
  if (items.length > SHOWN) shown.push(`  … and ${items.length - SHOWN} more`);
  return shown;
}

const short = (oid: Oid): string => oid.slice(0, 12);
