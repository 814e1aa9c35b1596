/** `agentq pause`: stop landing; submissions are still accepted and wait. */
import { pauseQueue } from "../../src/landing/operator.ts";
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
  const { queue, snapshot } = await openSession(context);
  const reason = flags.reason === undefined ? null : String(flags.reason);
  const paused = await pauseQueue(queue, snapshot, reason, {
    clock: systemClock,
    by: participantId(),
    signal: context.signal,
  });
  const branch = queue.names.branchName;
  context.print(
    { schema: "agentq.control/1", branch, paused, acceptedTip: null },
    () => `landing on ${branch} is paused; go on with agentq resume${queue.options ?? ""}`,
  );
  return 0;
}
