/** The error for a branch that lacks what its queue landed: until somebody decides, nothing lands. */
import { AgentqError } from "../errors.ts";
import type { Oid } from "../git/types.ts";
import type { Queue, Snapshot } from "./snapshot.ts";

/** `anchor`: the commit that the branch had to contain. */
export function branchRewound(queue: Queue, snapshot: Snapshot, anchor: Oid): AgentqError {
  const branch = JSON.stringify(queue.names.branchName);
  return new AgentqError(
    "branch-rewound",
    snapshot.tip === null
      ? `branch ${branch} is gone, and with it ${anchor}, which the queue landed`
      : `branch ${branch} is at ${snapshot.tip} and no longer contains ${anchor}, which the queue landed`,
    {
      hint: snapshot.tip === null
        ? `Restore the branch: git push REMOTE ${anchor}:${queue.names.branch}. Until then nothing lands.`
        : `If that was meant, go on with: agentq resume --accept-tip ${snapshot.tip}; ` +
          "else restore the branch. Until then nothing lands.",
      details: { branch: queue.names.branchName, tip: snapshot.tip, landed: anchor },
    },
  );
}
