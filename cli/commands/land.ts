/** `agentq land`: land what is queued, then stop, or keep going with --watch. */
import { documentOfResult } from "../../src/landing/documents.ts";
import { readControl } from "../../src/landing/control.ts";
import { anchorOf, isRewound, lastLanded } from "../../src/landing/decide.ts";
import { landQueue } from "../../src/landing/land-queue.ts";
import { branchRewound } from "../../src/landing/rewound.ts";
import { readSnapshot } from "../../src/landing/snapshot.ts";
import type { Context } from "../context.ts";
import { deliverKept } from "../deliver.ts";
import {
  dutyOf,
  type LandingSession,
  openSession,
  reaches,
  submissionsOrNull,
} from "../landing.ts";
import { describeResult } from "../output/landing.ts";
import type { Flags } from "../spec.ts";

export async function run(
  context: Context,
  _args: readonly string[],
  flags: Flags,
): Promise<number> {
  const session = await openSession(context);
  if (session.snapshot.unacked === 0) await assertNotRewound(context, session);
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

/** A lander that has nothing to do finds it too. @throws `branch-rewound` */
async function assertNotRewound(
  context: Context,
  { queue, snapshot, origin }: LandingSession,
): Promise<void> {
  const { signal } = context;
  const contains = (commit: string, ancestor: string) => reaches(context, origin, commit, ancestor);
  for (let looks = 1;; looks++) {
    const landed = await lastLanded(queue.chains, snapshot.done, signal);
    if (landed === null || landed === snapshot.tip) return;
    const control = await readControl(queue, snapshot.lock, signal);
    if (!await isRewound(snapshot, control, landed, contains)) return;
    if (looks > 1) {
      const anchor = anchorOf(snapshot, control, landed)!;
      throw branchRewound(queue, snapshot, { anchor, landed });
    }
    // Refs are advertised one after another: a landing in between looks the same.
    snapshot = await readSnapshot(queue, signal);
  }
}
