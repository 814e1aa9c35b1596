/** A read-only audit: everything a person should know about a store, changing nothing. */
import { join } from "node:path";
import { AgentqError, isAgentqError } from "../errors.ts";
import { decode } from "./admission.ts";
import { admitFile } from "./admit.ts";
import { allAnnouncements, announcerLiveness } from "./announcements.ts";
import { holderLiveness } from "./observed-lock.ts";
import { duplicateName } from "./duplicates.ts";
import { decodePayload } from "./encoding.ts";
import { LOCK_NAME, TOKEN_PATTERN } from "./layout.ts";
import { readState } from "./inspect.ts";
import { readObject } from "./payload.ts";
import { describeOwner, findLocks, isRecoveryName } from "./stale.ts";
import type { StoreState } from "./state.ts";
import { encodeState } from "./state-file.ts";
import { type StoreContext, typed } from "./transaction.ts";
import type { CheckFinding, CheckReport, Token } from "./types.ts";

/** Audits the store without the lock; what a running transaction changes meanwhile is looked at again. */
export async function check(context: StoreContext): Promise<CheckReport> {
  try {
    while (true) {
      const { revision } = readState(context);
      const report = audit(context);
      if (readState(context).revision === revision && report.revision === revision) return report;
    }
  } catch (error) {
    throw typed(context.paths, error);
  }
}

function audit(context: StoreContext): CheckReport {
  const { paths, platform } = context;
  const findings: CheckFinding[] = [];
  const state = readState(context);
  const referenced = referencedObjects(state);
  for (const [object, { where, encoding }] of referenced) {
    try {
      readPayload(context, object, encoding);
    } catch (error) {
      if (!(error instanceof AgentqError)) throw error;
      const level = isAgentqError(error, "io-error") && !isDenied(error) ? "warning" : "error";
      findings.push({ level, path: where, message: error.message });
    }
  }

  let orphans = 0;
  for (const name of platform.files.readdir(paths.objects)) {
    if (!TOKEN_PATTERN.test(name)) {
      findings.push({
        level: "warning",
        path: join(paths.objects, name),
        message: "isn't an object of the store; nothing will touch it",
      });
    } else if (!referenced.has(name)) orphans++;
  }
  if (orphans > 0) {
    findings.push({
      level: "note",
      path: paths.objects,
      message: `${orphans} objects belong to nothing; agentq store gc removes them`,
    });
  }
  for (const audit of [auditFailed(context, state), auditText(context), auditNamespace(context)]) {
    for (const finding of audit) findings.push(finding);
  }
  return {
    storeId: state.storeId,
    revision: state.revision,
    slots: state.slots,
    failed: state.failed.size,
    orphans,
    stateBytes: encodeState(state).reduce((sum, { length }) => sum + length, 0),
    findings,
    sound: findings.every(({ level }) => level !== "error"),
  };
}

/** Dead letters that a removal has left which an older version didn't end. */
function auditFailed({ paths }: StoreContext, { queues, failed }: StoreState): CheckFinding[] {
  const left = new Map<string, number>();
  for (const { queue } of failed.values()) {
    if (!queues.has(queue)) left.set(queue, (left.get(queue) ?? 0) + 1);
  }
  return [...left].map(([queue, count]) => ({
    level: "warning",
    path: paths.state,
    message: `${count === 1 ? "a dead letter is" : `${count} dead letters are`} of the queue ` +
      `${queue}, which was removed; agentq queue failed prune ${queue} removes them`,
  }));
}

function auditText(context: StoreContext): CheckFinding[] {
  const twice = nameTwice(context);
  if (twice === null) return [];
  const message = `has ${JSON.stringify(twice)} twice in one object`;
  return [{ level: "error", path: context.paths.state, message }];
}

/** A name that state.json has twice in one object, or null: of such reading shows the last alone. */
export function nameTwice({ paths, platform, policy, limits }: StoreContext): string | null {
  const { bytes } = admitFile(platform.files, paths.state, policy, limits.maxStateBytes);
  return duplicateName(decode(bytes));
}

/** Whoever else looks fails too, unlike where something merely ran out here. */
function isDenied({ details }: AgentqError): boolean {
  return details?.errno === "EACCES" || details?.errno === "EPERM" || details?.errno === "EIO";
}

function auditNamespace(context: StoreContext): CheckFinding[] {
  const { paths, platform } = context;
  const findings: CheckFinding[] = [];
  for (const lock of findLocks(platform, paths.namespace)) {
    const liveness = holderLiveness(platform, lock);
    findings.push({
      level: liveness === "alive" ? "note" : "warning",
      path: lock.path,
      message: `held by ${describeOwner(lock)} (${liveness}), owner token ${lock.token}`,
    });
  }
  const announced = new Set<string>();
  for (const announcement of allAnnouncements(platform, paths.namespace)) {
    announced.add(announcement.path);
    if (announcerLiveness(platform, announcement) === "alive") continue;
    findings.push({
      level: "note",
      path: announcement.path,
      message: "left by a process that died with the lock or taking it",
    });
  }
  const known = new Set(["format.json", "state.json", "objects", LOCK_NAME]);
  for (const name of platform.files.readdir(paths.namespace)) {
    const path = join(paths.namespace, name);
    if (known.has(name) || announced.has(path) || isRecoveryName(name)) continue;
    findings.push({
      level: "warning",
      path,
      message: "isn't a file of the store; nothing will touch it",
    });
  }
  return findings;
}

/** By which reference an object is used, and how that one reads it. */
export interface ObjectUse {
  readonly where: string;
  readonly encoding: string | null;
}

/** Every object that the state refers to, and by what. */
export function referencedObjects(state: StoreState): Map<Token, ObjectUse> {
  const objects = new Map<Token, ObjectUse>();
  const add = (used: { object: Token; encoding?: string }, where: string) =>
    void objects.set(used.object, { where, encoding: used.encoding ?? null });
  for (const [queue, { slots }] of state.queues) {
    for (const [id, { pending, claimed }] of slots) {
      if (pending !== null) add(pending, `${queue}/${id} (pending)`);
      if (claimed !== null) add(claimed, `${queue}/${id} (claimed)`);
    }
  }
  for (const [failedId, record] of state.failed) add(record, `failed/${failedId}`);
  return objects;
}

function readPayload(context: StoreContext, object: Token, encoding: string | null): void {
  const { platform, paths, policy, limits } = context;
  const bytes = readObject(platform.files, paths, object, policy, limits.maxPayloadBytes);
  const decoded = decodePayload(bytes, encoding);
  if ("problem" in decoded) {
    throw new AgentqError("payload-unreadable", `${decoded.problem} (${object})`);
  }
}
