/** What the gate tells whoever has to mend a candidate. */
import { Buffer } from "node:buffer";
import { quotePath, shellPath, shownPath, shownSentence } from "../../git/path-quote.ts";
import type { Oid } from "../../git/types.ts";
import type { Loss, Remedy } from "./loss.ts";
import { linesOfText } from "./texts.ts";
import { pathText } from "../state.ts";
import type { MergeResult } from "../types.ts";

/** At most this many paths are spelled out. */
const SHOWN = 50;
/** So many lines of files are quoted, of each path and of all; and so much of a line. */
const QUOTED_OF_PATH = 5;
const QUOTED = 40;
const WIDTH = 120;
/** For so many paths of each kind there is advice. */
const ADVISED = 8;

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
    "files, `git add` them, `git commit`.",
  ];
  return lines.join("\n") + "\n";
}

/** A merge that lost work. */
export interface RefusedMerge {
  /** A merge commit of the candidate and its parents; null for the merge with the branch itself. */
  readonly merge: {
    readonly oid: Oid;
    /** Whether it is the candidate itself, and not below it. */
    readonly isTip: boolean;
    readonly sides: readonly { readonly oid: Oid; readonly onBranch: boolean }[];
  } | null;
  readonly losses: readonly Loss[];
}

/** Merges that lost work, and what to do about it. */
export function refusalReport(bad: readonly RefusedMerge[]): string {
  const lines: string[] = [];
  let room = QUOTED;
  for (const { merge, losses } of bad) {
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
    if (merge !== null) lines.push(...remedies(merge, losses));
    lines.push("");
  }
  const kinds = new Set(bad.flatMap(({ losses }) => losses.map(({ kind }) => kind)));
  const marked = kinds.delete("markers");
  const next: string[] = [];
  if (marked) {
    next.push(
      "Take the conflict markers out so that both sides' lines stand, commit, submit again.",
    );
  }
  if (kinds.size > 0) {
    next.push(
      "Put what is missing back in a new commit (or make the merge again), then submit again.",
      ...kinds.has("text") || kinds.has("whole")
        ? [
          "If nothing is missing but adapted to the rest: make the merge as git makes it, commit it, and adapt in an",
          "ordinary commit after it.",
        ]
        : [],
      "If the loss is meant, say so: submit with --drop PATH for each path (globs allowed).",
    );
  }
  if (marked && kinds.size > 0) next.push("Markers can't be dropped.");
  lines.push(...next.map((line, i) => i === 0 ? `Next: ${line}` : line));
  return lines.join("\n") + "\n";
}

/** The commands that bring back what a merge commit lost. */
function remedies(merge: NonNullable<RefusedMerge["merge"]>, losses: readonly Loss[]): string[] {
  const at = short(merge.oid);
  const others = merge.sides.slice(1).map((_, i) => `git merge ${at}^${i + 2}`);
  const isOctopus = others.length > 1;
  const lines = [
    `  See what merging gives${isOctopus ? ", one parent after the other" : ""}: ` +
    `git checkout --detach ${at}^1 && ${others.join(" && ")}`,
    ...isOctopus
      ? ["  (Where one stops at a conflict, settle and commit it, and go on with the next.)"]
      : [],
    `  To go on from there, settle and commit it, then: ${
      merge.isTip ? "git checkout -B BRANCH" : `git rebase --onto HEAD ${at} BRANCH`
    }`,
  ];
  const ofParent = (parent: 1 | 2): number => parent === 1 ? 1 : merge.sides.length;
  for (const parent of [1, 2] as const) {
    const from = (remedy: Remedy): Loss[] =>
      losses.filter((loss) => loss.parent === parent && loss.remedy === remedy);
    const n = ofParent(parent);
    // What came before the last parent of an octopus is no commit.
    if (parent === 1 && merge.sides.length > 2) continue;
    lines.push(
      ...eachOf(
        from("take"),
        `Only parent ${n} changed it, take it whole: `,
        ({ path }) => `git checkout ${at}^${n} -- ${pathspec(path)}`,
      ),
      ...eachOf(
        from("keep"),
        `Parent ${n} changed it, and parent ${ofParent(parent === 1 ? 2 : 1)} deleted it: `,
        ({ path }) =>
          `git checkout ${at}^${n} -- ${pathspec(path)} keeps it changed, ` +
          `--drop=${shellPath(droppable(path))} keeps it deleted.`,
      ),
      ...eachOf(
        from("remove"),
        `Parent ${n} deleted it: `,
        ({ path }) => `git rm -r -- ${pathspec(path)}`,
      ),
    );
    const edits = from("edit").filter(({ kind }) => kind === "text");
    lines.push(
      ...eachOf(
        edits.filter(({ blob }) => blob !== undefined),
        `Parent ${n} has it under another name: `,
        ({ path, blob }) =>
          `edit ${shellPath(path)} so that what is missing stands there too; ` +
          `git show ${short(blob!)} has it.`,
      ),
      ...eachOf(
        edits.filter(({ blob }) => blob === undefined),
        `Both sides changed it: `,
        ({ path }) =>
          `edit ${shellPath(path)} so that what is missing stands there too; ` +
          `git show ${at}^${n}:${shellPath(path)} has it.`,
      ),
    );
  }
  return lines;
}

/** One advice for each of some paths, complete to be copied; of very many paths for the first ones. */
function eachOf(
  losses: readonly Loss[],
  why: string,
  advice: (loss: Loss) => string,
): string[] {
  const lines = losses.slice(0, ADVISED).map((loss) => `  ${why}${advice(loss)}`);
  if (losses.length > ADVISED) {
    lines.push(
      `  … and ${losses.length - ADVISED} more like it: --json has all paths, as \`files\`.`,
    );
  }
  return lines;
}

/** A path for git's command line: what git would take for a pattern is marked as a name. */
const pathspec = (path: string): string =>
  shellPath(/^:|[*?[\\]/.test(path) ? `:(literal)${path}` : path);

/** A path as `--drop` takes it for that path alone: no glob is meant by what stands between double quotes. */
function droppable(path: string): string {
  const quoted = quotePath(path);
  return /^"|[*?[\\]/.test(path) && !quoted.startsWith('"') ? `"${quoted}"` : path;
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
