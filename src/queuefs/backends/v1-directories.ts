/** Which directories are v1 queues, by what they are called and what they hold; making them. */
import { lstatSync, mkdirSync, readdirSync, type Stats, statSync } from "node:fs";
import { join } from "node:path";
import { AgentqError } from "../../errors.ts";
import { madeThroughNothing } from "../../platform/directory.ts";
import { errnoOf, ioError } from "../../platform/durable.ts";
import { assertUsableUmask } from "../../platform/umask.ts";
import { v1Contents } from "../../store/v1-contents.ts";
import { requireV1Place } from "../../store/v1-probe.ts";
import { holdsStore } from "../../store/v2-marks.ts";
import { checkQueueName, isQueueName, quoted } from "../names.ts";

/** The directory of a queue's dead letters, in the queue's own. */
export const FAILED = "failed";

/** The directory that `v1:DIR` names. Throws `backend-missing` where there is none and none is to be made. */
export function requireDirectory(path: string, create: boolean): void {
  let found: Stats | undefined;
  try {
    found = statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    throw ioError("look at", path, error);
  }
  if (found?.isDirectory()) return;
  if (found !== undefined) {
    throw new AgentqError("io-error", `${path} is not a directory`, {
      hint: "Name a directory: v1:DIR.",
      details: { path, errno: "ENOTDIR" },
    });
  }
  if (!create) throw new AgentqError("backend-missing", `there is no directory ${path}`);
  assertUsableUmask(path);
  requireV1Place(path);
  makeDirectory(path);
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

function makeDirectory(path: string): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw madeThroughNothing(path, error) ?? ioError("make", path, error);
  }
}

/**
 * Makes a directory a queue; true for the one process that did. fs-safe makes it last. Nothing is made where v1 can't
 * work: `helper-unavailable`, `mode-unsupported`.
 */
export function makeQueue(path: string): boolean {
  assertUsableUmask(path);
  requireV1Place(path);
  makeDirectory(path);
  const failed = join(path, FAILED);
  try {
    mkdirSync(failed, { mode: 0o700 });
    return true;
  } catch (error) {
    if (errnoOf(error) === "EEXIST") return false;
    throw ioError("make", failed, error);
  }
}

/** fs-safe follows none: what leads elsewhere the next time is no place for messages. */
export function refuseLink(path: string, directory: string): void {
  if (!lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink()) return;
  throw new AgentqError("identity-changed", `${path} is a symbolic link`, {
    hint: `v1 follows none below ${directory}: name what it leads to, or remove it.`,
    details: { path },
  });
}

/** Holds messages that v1 wrote, or where its messages fail to. */
export function isQueueDirectory(path: string): boolean {
  return isDirectory(path) && v1Contents(path).isQueue;
}

/** A directory that other programs' files lie in, and nothing of v1's: the name of one of them, else null. */
export function foreignIn(path: string): string | null {
  if (!isDirectory(path)) return null;
  const { isQueue, foreign } = v1Contents(path);
  return isQueue || foreign?.startsWith(".") ? null : foreign;
}

/** The refusal to make a queue where other programs keep their files, which would become messages. */
export function noPlaceForQueue(path: string, foreign: string): AgentqError {
  return new AgentqError(
    "identity-changed",
    `${path} holds ${quoted(foreign)}, and nothing that v1 has written: it is no v1 queue`,
    {
      hint:
        "Give the queue a directory of its own; a queue that was copied gets its permissions back " +
        "by chmod 700 for directories and 600 for files.",
      details: { path, foreign },
    },
  );
}

/** But for what fs-safe keeps in a queue for itself (`.fs-safe-…`, temporary files). */
export function isEmptyDirectory(path: string): boolean {
  return isDirectory(path) && readdirSync(path).every((name) => name.startsWith("."));
}

/** A queue's name; never one that would make dead letters of another queue its messages. */
export function checkV1Name(name: string): string {
  if (checkQueueName(name).split("/").includes(FAILED)) {
    throw new AgentqError(
      "queue-name-invalid",
      `${quoted(name)} is no name for a v1 queue: ${FAILED} is where dead letters lie`,
    );
  }
  return name;
}

/** Every queue below `directory`, those too that lie below a name that no queue may have itself. */
export function below(directory: string, prefix: string): string[] {
  const names: string[] = [];
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    if (!entry.isDirectory() || entry.name === FAILED) continue;
    const name = `${prefix}${entry.name}`;
    const path = join(directory, entry.name);
    if (holdsStore(path)) continue;
    if (isQueueName(name) && isQueueDirectory(path)) names.push(name);
    if (isQueueName(`${name}/x`)) {
      for (const each of below(path, `${name}/`)) names.push(each);
    }
  }
  return names.sort();
}

export function isV1Name(name: string): boolean {
  return name !== FAILED && isQueueName(name);
}
