/** The error for a branch that lacks what its queue landed: until somebody decides, nothing lands. */
import { AgentqError } from "../errors.ts";
import type { Oid } from "../git/types.ts";
import { shellWord } from "../store/shell-word.ts";
import type { Queue, Snapshot } from "./snapshot.ts";

export interface Lacking {
  /** The commit that the branch had to contain: `landed`, or a tip that was accepted since. */
  readonly anchor: Oid;
  /** The last commit that the queue landed. */
  readonly landed: Oid | null;
}

export function branchRewound(queue: Queue, snapshot: Snapshot, lacking: Lacking): AgentqError {
  const { anchor, landed } = lacking;
  const { tip } = snapshot;
  const branch = JSON.stringify(queue.names.branchName);
  const what = anchor === landed ? "which the queue landed" : "which was accepted as its tip";
  const restore = restoring(queue, snapshot, lacking);
  const accept = (oid: string) => `agentq resume --accept-tip ${oid}${queue.options ?? ""}`;
  return new AgentqError(
    "branch-rewound",
    tip === null
      ? `branch ${branch} is gone, and with it ${anchor}, ${what}`
      : `branch ${branch} is at ${tip} and no longer contains ${anchor}, ${what}`,
    {
      hint: tip === null
        ? `Restore the branch, in any clone: ${restore}. If it was deleted on purpose, push it anew at any commit, ` +
          `then go on from that one: ${accept("OID")}. Until then nothing lands.`
        : `If that was meant, go on with: ${accept(tip)}; ` +
          `else restore the branch, in any clone: ${restore}. Until then nothing lands.`,
      details: { branch: queue.names.branchName, tip, landed: anchor },
    },
  );
}

/** Commands for a shell in any clone, which need not have the commit: `done` reaches all that was landed. */
function restoring(
  { origin, names, remote }: Queue,
  { tip }: Snapshot,
  { anchor, landed }: Lacking,
): string {
  const from = shellWord(remote ?? origin.url);
  const wanted = anchor === landed ? shellWord(names.done) : anchor;
  const branch = shellWord(names.branch);
  // Where others pushed on from an older commit, restoring it drops what they pushed, and nothing that is newer.
  const lease = tip === null ? "" : `--force-with-lease=${branch}:${tip} `;
  return `git fetch ${from} ${wanted} && git push ${lease}${from} ${anchor}:${branch}`;
}
