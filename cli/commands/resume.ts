/** `agentq resume`: lift a pause, or accept a branch that was rewound. */
import { AgentqError, isAgentqError } from "../../src/errors.ts";
import { isOid } from "../../src/git/oid.ts";
import { resolveCommit } from "../../src/git/revision.ts";
import { resumeQueue } from "../../src/landing/operator.ts";
import { participantId } from "../../src/landing/participant.ts";
import { systemClock } from "../../src/platform/clock.ts";
import type { Context } from "../context.ts";
import { openSession } from "../landing.ts";
import type { Flags } from "../spec.ts";

export async function run(
  context: Context,
  _args: readonly string[],
  flags: Flags,
): Promise<number> {
  const given = flags["accept-tip"];
  const acceptedTip = given === undefined ? null : tipOf(context, String(given));
  const { queue, snapshot } = await openSession(context);
  await resumeQueue(queue, snapshot, acceptedTip, {
    clock: systemClock,
    by: participantId(),
    signal: context.signal,
  });
  const branch = queue.names.branchName;
  context.print(
    { schema: "agentq.control/1", branch, paused: null, acceptedTip },
    () =>
      `landing on ${branch} goes on` +
      (acceptedTip === null ? "" : ` from ${acceptedTip.slice(0, 12)}`),
  );
  return 0;
}

/** A whole object id, or a revision of the clone. @throws `usage` */
function tipOf(context: Context, given: string): string {
  if (isOid(given)) return given;
  try {
    return resolveCommit(context.repository(), given);
  } catch (error) {
    if (!isAgentqError(error, "revision-unknown", "not-a-repository")) throw error;
    throw new AgentqError("usage", `--accept-tip: ${JSON.stringify(given)} names no commit here`, {
      hint: "Pass the whole object id, as agentq status --json shows it under snapshot.tip.",
    });
  }
}
