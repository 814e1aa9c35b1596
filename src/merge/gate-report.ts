/** What the gate tells whoever has to mend a candidate. */
import type { Oid } from "../git/types.ts";
import type { Loss } from "./gate-path.ts";
import { pathText } from "./state.ts";
import type { MergeResult } from "./types.ts";

/** At most this many paths are spelled out. */
const SHOWN = 50;

/** The merge with the branch has conflicts. */
export function mergeReport(merge: MergeResult): string {
  const lines = [
    `Merging the candidate ${short(merge.theirs)} into the branch, which is at ${
      short(merge.ours)
    }, has conflicts:`,
    ...list(
      merge.conflicts.map(({ path, type, regions }) =>
        `${pathText(path)} (${type}${regions.length > 0 ? `, lines ${regions.join(", ")}` : ""})`
      ),
    ),
    ...merge.messages.map((message) => `  ${message}`).slice(0, SHOWN),
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
    readonly sides: readonly { readonly oid: Oid; readonly onBranch: boolean }[];
  } | null;
  readonly losses: readonly Loss[];
}

/** Merges that lost work, and what to do about it. */
export function refusalReport(bad: readonly RefusedMerge[]): string {
  const lines: string[] = [];
  for (const { merge: commit, losses } of bad) {
    const merge = commit?.oid ?? null;
    lines.push(
      merge === null
        ? "The merge with the branch loses work:"
        : `The merge commit ${short(merge)} loses work:`,
      ...list(losses.map(({ path, parent, what, regions }) => {
        const where = regions.length > 0 ? ` (lines ${regions.join(", ")})` : "";
        const side = parent === 0 ? "" : ` [changed ${changedBy(commit, parent)}]`;
        return `${pathText(path)}: ${what}${where}${side}`;
      })),
    );
    if (merge !== null) {
      lines.push(
        `  See what merging gives: git checkout --detach ${short(merge)}^1 && git merge ${
          short(merge)
        }^2`,
        `  Take a path from parent N: git checkout ${short(merge)}^N -- PATH`,
      );
    }
    lines.push("");
  }
  lines.push(
    "Next: put what is missing back in a new commit (or make the merge again), then submit again.",
    "If the loss is meant, say so: submit with --drop PATH for each path (globs allowed).",
  );
  return lines.join("\n") + "\n";
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
