/** What an origin can do for a landing queue, found out by asking it. */
import { isAgentqError } from "../errors.ts";
import type { Origin } from "../git/types.ts";
import { systemClock } from "../platform/clock.ts";
import { readControl } from "./control.ts";
import { type BranchCheckOptions, branchChecks } from "./doctor-branch.ts";
import { type Check, check, failed } from "./doctor-check.ts";
import { pushCheck, type PushCheckOptions } from "./doctor-push.ts";
import { openQueue, type Queue, type Snapshot } from "./snapshot.ts";

export interface OriginDoctorOptions extends PushCheckOptions, BranchCheckOptions {
  /** False: read only, so that the push check is skipped. */
  readonly push: boolean;
  /** See {@link Queue.remote}. */
  readonly remote?: string;
}

/** Checks one origin, from "can it be reached" to "does it let us write". Never throws for what it finds. */
export async function examineOrigin(
  open: () => Promise<Origin>,
  options: OriginDoctorOptions,
): Promise<Check[]> {
  const clock = options.clock ?? systemClock;
  let opened: { queue: Queue; snapshot: Snapshot };
  let origin: Origin | undefined;
  const began = clock.monotonic();
  try {
    origin = await open();
    opened = await openQueue(origin, options);
  } catch (error) {
    options.signal?.throwIfAborted();
    return unopened(origin, error);
  }
  const { queue, snapshot } = opened;
  const took = Math.round(clock.monotonic() - began);
  const { checks: locks, locked } = await lockChecks(queue, options);
  return [
    check("origin", "ok", `${origin.url} answers over ${origin.kind}, ${took} ms for one look`),
    ...ownerCheck(origin),
    ...locks,
    ...await branchChecks(queue, snapshot, options),
    await queueCheck(queue, snapshot, options.signal),
    await maybePush(queue, snapshot, locked, options),
  ];
}

/** The checks of an origin that can't be asked, all of them skipped for the same reason. */
export function unexamined(why: string, hint: string | null = null): Check[] {
  return [check("origin", "skip", why, hint), ...behind(why)];
}

const behind = (why: string) => ["queue", "push"].map((name) => check(name, "skip", why));

/** What is wrong with the queue in an origin that answers well enough. */
function unopened(origin: Origin | undefined, error: unknown): Check[] {
  if (
    origin && isAgentqError(error, "corrupt-chain", "chain-unsupported", "branch-name-collision")
  ) {
    return [
      check("origin", "ok", `${origin.url} answers over ${origin.kind}`),
      failed("queue", error),
      check("push", "skip", "the queue could not be read"),
    ];
  }
  return [failed("origin", error), ...behind("the origin could not be read")];
}

function ownerCheck(origin: Origin): Check[] {
  const remark = origin.remark?.() ?? null;
  return remark === null ? [] : [check("origin-owner", "warn", remark.message, remark.hint)];
}

/** Lock files that are left in an origin on this machine; and the refs that can't move because of them. */
async function lockChecks(
  { origin, names }: Queue,
  { push, signal }: Pick<OriginDoctorOptions, "push" | "signal">,
): Promise<{ checks: Check[]; locked: ReadonlySet<string> }> {
  if (!origin.leftLocks) return { checks: [], locked: new Set() };
  try {
    const { branch, queue, done, lock } = names;
    const refs = [branch, queue, done, lock];
    if (push) await origin.tidy?.(refs);
    const found = await origin.leftLocks(refs, signal);
    const locked = new Set(found.flatMap(({ ref }) => ref === null ? [] : [ref]));
    if (found.length === 0) {
      return { checks: [check("origin-locks", "ok", "no lock file is left in its refs")], locked };
    }
    const one = check(
      "origin-locks",
      locked.size > 0 ? "fail" : "warn",
      found.map(({ path, owner }) => `${path}: ${owner}`).join("; "),
      [
        ...new Set(found.map(({ advice }) => advice)),
        locked.size > 0
          ? "Until then what moves those refs fails."
          : "Until then git packs no refs.",
      ].join(" "),
    );
    return { checks: [one], locked };
  } catch (error) {
    signal?.throwIfAborted();
    return { checks: [failed("origin-locks", error)], locked: new Set() };
  }
}

async function queueCheck(queue: Queue, snapshot: Snapshot, signal?: AbortSignal): Promise<Check> {
  try {
    const control = await readControl(queue, snapshot.lock, signal);
    if (control.paused) {
      const why = control.paused.reason ? `: ${control.paused.reason}` : "";
      return check(
        "queue",
        "warn",
        `paused by ${control.paused.by}${why}`,
        `Run agentq resume${queue.options ?? ""} when the reason is gone.`,
      );
    }
    return check("queue", "ok", `${snapshot.unacked} waiting, the next ticket is ${snapshot.next}`);
  } catch (error) {
    signal?.throwIfAborted();
    return failed("queue", error);
  }
}

async function maybePush(
  queue: Queue,
  snapshot: Snapshot,
  locked: ReadonlySet<string>,
  options: OriginDoctorOptions,
): Promise<Check> {
  const { lock, branchName } = queue.names;
  const { tip, queueHead, lockHead } = snapshot;
  if (!options.push) return check("push", "skip", "not tried with --read-only");
  if (locked.has(lock)) return check("push", "skip", `not tried: ${lock} is locked`);
  if (tip === null && queueHead === null && lockHead === null) {
    return check(
      "push",
      "skip",
      `not tried: it would begin a queue for ${branchName}, a branch that isn't there`,
    );
  }
  return await pushCheck(queue, snapshot, options);
}
