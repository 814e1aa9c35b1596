/** `agentq status`: the queue now, from one snapshot, and this machine's own submissions. */
import type { Oid } from "../../src/git/types.ts";
import type { EntryCache } from "../../src/landing/entry-cache.ts";
import { statusOf } from "../../src/landing/status.ts";
import { isForQueue } from "../../src/landing/submit.ts";
import type { Context } from "../context.ts";
import {
  keptEntries,
  type LandingSession,
  openSession,
  placeOf,
  printableRemote,
  submissionsOrNull,
  workingRepository,
} from "../landing.ts";
import { describeStatus } from "../output/landing.ts";
import type { Flags } from "../spec.ts";

export async function run(
  context: Context,
  _args: readonly string[],
  flags: Flags,
): Promise<number> {
  let kept: EntryCache | undefined;
  const session = await openSession(context, (origin) => kept = keptEntries(context, origin));
  const { queue, snapshot, origin } = session;
  const place = placeOf(context, origin.url, queue.names.branchName);
  const submissions = await submissionsOrNull(context);
  const own = (await submissions?.list() ?? []).filter((record) => isForQueue(record, place));
  const document = await statusOf(queue, snapshot, {
    remote: printableRemote(context),
    limit: Number(flags.limit),
    submissions: own,
    contains: (commit, ancestor) => contains(context, session, commit, ancestor),
    signal: context.signal,
  });
  context.print(document, () => describeStatus(document));
  kept?.save();
  return 0;
}

async function contains(
  context: Context,
  session: LandingSession,
  commit: Oid,
  ancestor: Oid,
): Promise<boolean> {
  const [{ createWorkingObjects }, { isAncestor }] = await Promise.all([
    import("../../src/landing/working-objects.ts"),
    import("../../src/git/history.ts"),
  ]);
  const repository = await workingRepository(context, session.origin);
  const objects = createWorkingObjects(session.origin, repository.objects);
  await objects.ensure([commit], context.signal);
  return isAncestor(objects, ancestor, commit);
}
