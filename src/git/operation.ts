/** The operation that git would say is in progress, from the files that git itself looks for. */
import fs from "node:fs";
import { join } from "node:path";

/** In git's words; `git status` says "You are currently rebasing" and the like. */
export type Operation = "merge" | "rebase" | "am" | "cherry-pick" | "revert" | "bisect";

export interface OperationInProgress {
  readonly operation: Operation;
  /** The command that ends it without finishing. */
  readonly abort: string;
}

const ABORT: Record<Operation, string> = {
  merge: "git merge --abort",
  rebase: "git rebase --abort",
  am: "git am --abort",
  "cherry-pick": "git cherry-pick --abort",
  revert: "git revert --abort",
  bisect: "git bisect reset",
};

/** What is in progress in this worktree (its own git directory), or null. */
export function operationInProgress(
  repository: { readonly gitDir: string },
): OperationInProgress | null {
  const has = (...names: string[]) => fs.existsSync(join(repository.gitDir, ...names));
  const found = (operation: Operation) => ({ operation, abort: ABORT[operation] });
  if (has("rebase-merge")) return found("rebase");
  if (has("rebase-apply")) return found(has("rebase-apply", "applying") ? "am" : "rebase");
  if (has("MERGE_HEAD")) return found("merge");
  if (has("CHERRY_PICK_HEAD")) return found("cherry-pick");
  if (has("REVERT_HEAD")) return found("revert");
  // Between two picks of a longer sequence neither head exists.
  const next = sequencerCommand(join(repository.gitDir, "sequencer", "todo"));
  if (next !== null) return found(next);
  return has("BISECT_LOG") ? found("bisect") : null;
}

function sequencerCommand(path: string): "cherry-pick" | "revert" | null {
  let todo: string;
  try {
    todo = fs.readFileSync(path, "utf8");
  } catch {
    return null;
  }
  if (/^\s*(?:pick|p)\s/.test(todo)) return "cherry-pick";
  return /^\s*revert\s/.test(todo) ? "revert" : null;
}
