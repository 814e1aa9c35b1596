/** Whether anything can land on the branch as it is, in the words of the commands that would stop. */
import { isAgentqError } from "../errors.ts";
import type { Repository } from "../git/repository.ts";
import type { ObjectReader, Oid, Origin } from "../git/types.ts";
import { readControl } from "./control.ts";
import { anchorOf, isRewound, lastLanded } from "./decide.ts";
import { type Check, check, failed } from "./doctor-check.ts";
import { assertBranchExists } from "./new-branch.ts";
import { type Pins, PINS_FILE, pinsAt } from "./pins.ts";
import { branchRewound } from "./rewound.ts";
import { missingSandbox } from "./sandbox.ts";
import { type Queue, readSnapshot, type Snapshot } from "./snapshot.ts";
import { createWorkingObjects } from "./working-objects.ts";

export interface BranchCheckOptions {
  /** The clone, whose objects are read before the origin is asked for any; null without one. */
  readonly clone: Repository | null;
  /** Whether one commit reaches another; asked only when the branch isn't where the queue left it. */
  readonly contains: (commit: Oid, ancestor: Oid) => Promise<boolean>;
  readonly signal?: AbortSignal;
}

/** The branch, what the queue landed on it, and what it asks of every ticket. */
export async function branchChecks(
  queue: Queue,
  snapshot: Snapshot,
  options: BranchCheckOptions,
): Promise<Check[]> {
  return [
    await branchCheck(queue, snapshot, options.signal),
    await rewoundCheck(queue, snapshot, options),
    ...await pinsChecks(queue, snapshot, options),
  ];
}

async function branchCheck(
  queue: Queue,
  snapshot: Snapshot,
  signal: AbortSignal | undefined,
): Promise<Check> {
  const { branchName } = queue.names;
  if (snapshot.tip !== null) return check("branch", "ok", `${branchName} is at ${snapshot.tip}`);
  try {
    await assertBranchExists(queue, snapshot, signal);
  } catch (error) {
    signal?.throwIfAborted();
    return failed("branch", error);
  }
  return check(
    "branch",
    "warn",
    `the origin has no branch ${branchName}`,
    snapshot.done === null
      ? "The first ticket to land will create it; name another one with --branch."
      : "Where the queue landed on it, the check `rewound` says how to go on; else the next ticket to land creates it.",
  );
}

/** One look that says so isn't enough: refs are advertised one after another, and a landing may lie between. */
async function rewoundCheck(
  queue: Queue,
  first: Snapshot,
  { contains, signal }: BranchCheckOptions,
): Promise<Check> {
  const { branchName } = queue.names;
  let snapshot = first;
  try {
    for (let looks = 1;; looks++) {
      const landed = await lastLanded(queue.chains, snapshot.done, signal);
      const control = await readControl(queue, snapshot.lock, signal);
      const anchor = anchorOf(snapshot, control, landed);
      if (anchor === null) return check("rewound", "ok", "the queue has landed nothing yet");
      if (!await isRewound(snapshot, control, landed, contains)) {
        return check("rewound", "ok", `${branchName} has what the queue landed`);
      }
      if (looks > 1) return failed("rewound", branchRewound(queue, snapshot, { anchor, landed }));
      snapshot = await readSnapshot(queue, signal);
    }
  } catch (error) {
    signal?.throwIfAborted();
    return failed("rewound", error);
  }
}

async function pinsChecks(
  { origin }: Queue,
  { tip }: Snapshot,
  options: BranchCheckOptions,
): Promise<Check[]> {
  let pins: Pins | null;
  try {
    pins = await readingTip(origin, tip, options, (objects) => pinsAt(objects, tip));
  } catch (error) {
    options.signal?.throwIfAborted();
    return [failed("pins", error)];
  }
  if (pins === null) {
    return [check(
      "pins",
      "skip",
      `${PINS_FILE} isn't read: the branch's commit is not on this machine`,
      "Run it in a whole clone, or git fetch there first.",
    )];
  }
  const { length } = pins.verify;
  const checks = length === 0 ? "no checks" : length === 1 ? "one check" : `${length} checks`;
  const message = `the branch asks for ${checks} of every ticket`;
  const { unknown } = pins;
  const said = unknown.length === 0 ? check("pins", "ok", message) : check(
    "pins",
    "warn",
    `${message}; nothing is done for ${unknown.slice(0, 5).join(", ")} in its ${PINS_FILE}`,
    "Take out what is no setting, or use a version of agentq that knows it.",
  );
  return [said, ...sandboxCheck(pins)];
}

/** Only whether it is there: a program that the branch names is run for no doctor. */
function sandboxCheck({ sandbox, verify }: Pins): Check[] {
  if (sandbox.length === 0) return [];
  const missing = missingSandbox(sandbox);
  if (missing === null) {
    const message = `${sandbox[0]} is put around checks; whether it works shows with the first`;
    return [check("sandbox", "ok", message)];
  }
  return [check(
    "sandbox",
    verify.length > 0 ? "fail" : "warn",
    missing,
    `Install it: until then this machine leaves ${
      verify.length > 0 ? "every ticket" : "tickets with checks"
    } to other landers.`,
  )];
}

/** What `work` reads of the branch's commit, fetched where a clone lacks it; null where that would be all of it. */
async function readingTip<T>(
  origin: Origin,
  tip: Oid | null,
  { clone, signal }: BranchCheckOptions,
  work: (objects: ObjectReader) => T,
): Promise<T | null> {
  const direct = origin.objects();
  if (direct) return work(direct);
  if (clone === null) return null;
  try {
    return work(clone.objects);
  } catch (error) {
    if (!isAgentqError(error, "object-missing")) throw error;
  }
  if (clone.shallow.size > 0) return null;
  const objects = createWorkingObjects(origin, clone.objects);
  if (tip !== null) await objects.ensure([tip], signal);
  return await objects.supplied(() => work(objects), signal);
}
