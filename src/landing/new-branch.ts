/**
 * A branch that the origin doesn't have. An empty origin gets its first branch by its first landing; in
 * any other a new branch is more likely a slip of the keyboard, and has to be asked for.
 */
import { AgentqError } from "../errors.ts";
import type { Queue, Snapshot } from "./snapshot.ts";

/** How many branches of the origin are named in a hint. */
const NAMED = 6;

/**
 * Passes when the branch is there, its queue was begun already, or the origin has no branch at all.
 * @throws `branch-unknown`, with the origin's branches as `details.branches`
 */
export async function assertBranchExists(
  { origin, names }: Queue,
  snapshot: Snapshot,
  signal?: AbortSignal,
): Promise<void> {
  if (snapshot.tip !== null || snapshot.queueHead !== null) return;
  const { refs } = await origin.refs(["refs/heads/"], signal);
  const branches = [...refs.keys()].map((ref) => ref.slice("refs/heads/".length)).sort();
  if (branches.length > 0) throw unknownBranch(names.branchName, origin.url, branches);
}

/** The error for a branch that isn't among `branches`, which are those of `where`. */
export function unknownBranch(
  branch: string,
  where: string,
  branches: readonly string[],
): AgentqError {
  const shown = branches.slice(0, NAMED).map((name) => JSON.stringify(name)).join(", ");
  const more = branches.length > NAMED ? `, and ${branches.length - NAMED} more` : "";
  return new AgentqError("branch-unknown", `${where} has no branch ${JSON.stringify(branch)}`, {
    hint: `It has ${shown}${more}. To begin a new branch with this commit, add --create-branch.`,
    details: { branch, branches: branches.slice(0, 100) },
  });
}
