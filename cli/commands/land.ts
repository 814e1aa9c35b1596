/** `agentq land`: land what is queued, then stop, or keep going with --watch. */
import { documentOfResult } from "../../src/landing/documents.ts";
import { landQueue } from "../../src/landing/land-queue.ts";
import type { Context } from "../context.ts";
import { deliverKept } from "../deliver.ts";
import { dutyOf, openSession, submissionsOrNull } from "../landing.ts";
import { describeResult } from "../output/landing.ts";
import type { Flags } from "../spec.ts";

export async function run(
  context: Context,
  _args: readonly string[],
  flags: Flags,
): Promise<number> {
  const session = await openSession(context);
  if (session.snapshot.tip === null && session.snapshot.unacked === 0) {
    const branch = JSON.stringify(session.queue.names.branchName);
    context.progress.line(`the origin has no branch ${branch} yet, and nothing is queued for it`);
  }
  const submissions = await submissionsOrNull(context);
  const { snapshot, failed } = submissions
    ? await deliverKept(context, session, submissions)
    : { snapshot: session.snapshot, failed: [] };
  if (context.json && failed.length > 0) {
    context.print({ schema: "agentq.flush/1", delivered: [], kept: failed }, () => "");
  }
  const end = await landQueue(session.queue, snapshot, {
    ...dutyOf(context, flags, session),
    watch: flags.watch === true,
    ...(flags.max !== undefined && { max: Number(flags.max) }),
    onResult: (entry) => {
      const document = documentOfResult(entry);
      context.print(document, () => describeResult(document));
    },
  });
  switch (end.why) {
    case "paused":
      context.progress.line(
        `landing is paused by ${end.by}${end.reason ? `: ${end.reason}` : ""}`,
      );
      return 3;
    case "left":
      context.progress.line(`ticket ${end.ticket} is left to another lander: ${end.because}`);
      return 3;
    default:
      return 0;
  }
}
