/** What a submitter is offered where the merge was refused: the same merge, in progress in the work tree. */
import { AgentqError } from "../src/errors.ts";
import type { Repository } from "../src/git/repository.ts";
import type { ResultDocument } from "../src/landing/schemas.ts";
import { readSnapshot } from "../src/landing/snapshot.ts";
import type { Context } from "./context.ts";
import { goOnBy, upstreamName } from "./go-on.ts";
import type { LandingSession } from "./landing.ts";

/**
 * After a refused merge the same merge is left in progress here. True when it passes by now, because
 * the branch moved on: then it is worth another ticket.
 */
export async function offerResolution(
  context: Context,
  repository: Repository,
  session: LandingSession,
  document: ResultDocument,
): Promise<boolean> {
  if (document.reason !== "merge refused" || repository.workTree === null) return false;
  const { leaveRefusedMerge } = await import("../src/landing/leave-merge.ts");
  const { queue, origin } = session;
  const { tip } = await readSnapshot(queue, context.signal);
  if (tip === null) return false;
  const label = upstreamName(context, queue.names.branchName);
  try {
    const left = await leaveRefusedMerge(origin, repository, {
      candidate: document.candidate,
      tip,
      label,
      signal: context.signal,
    });
    if (left.left) {
      context.progress.line(
        `the merge with ${label} is left in progress in ${repository.workTree}: resolve the marked ` +
          `files so that both sides' changes are in them, git add them, git commit, submit again`,
      );
    } else if (left.reason === "clean" && tip === document.tip) {
      // The lander met the very same: a submodule that is checked out here, a merge driver of this clone alone.
      context.progress.line(
        `the merge with ${label} is clean in this clone, by what only this clone has: ` +
          `git fetch && git merge ${label}, submit again`,
      );
    } else if (left.reason === "clean") {
      context.progress.line(`${left.message} Submitting it again.`);
      return true;
    } else {
      context.progress.line(`the merge was not left in progress here: ${left.message}`);
      goOnBy(context, queue.names.branchName, document);
    }
  } catch (error) {
    context.signal.throwIfAborted();
    const message = error instanceof AgentqError ? error.message : String(error);
    context.progress.line(`the merge could not be left in progress here: ${message}`);
    goOnBy(context, queue.names.branchName, document);
  }
  return false;
}
