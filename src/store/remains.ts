/**
 * What an initialisation that didn't end has left. Nothing of it is ever adopted, completed or taken
 * away: a person is told what is there and how to go on, and may have it moved aside, file by file.
 */
import { join } from "node:path";
import { AgentqError, isAgentqError } from "../errors.ts";
import { ioError, makeRoom, syncError } from "../platform/durable.ts";
import { lstatOrNull } from "./admit.ts";
import { DIRECTORY_MODE, NAMESPACE, type StorePaths } from "./layout.ts";
import { holderLiveness } from "./observed-lock.ts";
import { shellWord } from "./shell-word.ts";
import { describeOwner, findLocks } from "./stale.ts";
import type { StorePlatform } from "./types.ts";

/** `error`, which an initialisation of ours ended with, and what it has left. */
export function withRemains(
  platform: StorePlatform,
  paths: StorePaths,
  error: unknown,
  movedAside: string | null,
): unknown {
  if (!isAgentqError(error, "io-error", "durability-unavailable")) return error;
  const left = listed(platform, paths);
  if (left === null) return error;
  const first = makeRoom(error) ?? "Put right what the message names";
  const what = left.length === 0 ? "is left, empty" : `is left half made (${left.join(", ")})`;
  return new AgentqError(error.code, `${error.message}; ${paths.namespace} ${what}`, {
    cause: error,
    hint: `${first}, then ${wayOn(paths, left)}`,
    retryable: error.retryable,
    details: { ...error.details, left: paths.namespace, ...(movedAside ? { movedAside } : {}) },
  });
}

/** `init-incomplete` with the way on from what is there; any other error as it is. */
export function withWayOn(platform: StorePlatform, paths: StorePaths, error: unknown): unknown {
  if (!isAgentqError(error, "init-incomplete")) return error;
  const left = listed(platform, paths);
  if (left === null) return error;
  const hint = wayOn(paths, left);
  const { message, details } = error;
  return new AgentqError("init-incomplete", message, {
    cause: error.cause,
    hint: hint[0]!.toUpperCase() + hint.slice(1),
    ...(details === undefined ? {} : { details }),
  });
}

function wayOn({ root, namespace }: StorePaths, left: readonly string[]): string {
  // Removing a directory that isn't empty any more fails.
  if (left.length === 0) return `run: rmdir ${shellWord(namespace)}; then the command again.`;
  return `look at what is in ${namespace}; then run: agentq store init --resume-after-inspection ` +
    `--store ${shellWord(root)}`;
}

/** The names in the namespace; null where it isn't there, or can't be looked into. */
function listed({ files }: StorePlatform, { namespace }: StorePaths): string[] | null {
  try {
    return lstatOrNull(files, namespace)?.kind === "directory"
      ? files.readdir(namespace).sort()
      : null;
  } catch {
    return null;
  }
}

/** Moves every file of the remains into a sibling directory. Directories are never renamed. */
export function moveAside(platform: StorePlatform, paths: StorePaths): string {
  for (const lock of findLocks(platform, paths.namespace)) {
    if (holderLiveness(platform, lock) === "gone") continue;
    throw new AgentqError(
      "store-locked",
      `${lock.path} is held by ${describeOwner(lock)}, which can't be proved to have ended`,
      {
        hint: "When you have made sure that no process uses this directory: agentq store unlock " +
          `--store ${shellWord(paths.root)} --owner-token ${lock.token} --i-have-checked`,
        details: { path: lock.path, ownerToken: lock.token },
      },
    );
  }
  const aside = join(paths.root, `${NAMESPACE}.incomplete-${platform.token()}`);
  try {
    moveTree(platform, paths.namespace, aside);
  } catch (error) {
    throw ioError("move aside", paths.namespace, error);
  }
  try {
    platform.files.syncDirectory("aside.sync", paths.root);
  } catch (error) {
    throw syncError(paths.root, error);
  }
  return aside;
}

function moveTree(platform: StorePlatform, from: string, to: string): void {
  const { files } = platform;
  if (files.lstat(from)?.kind !== "directory") {
    files.rename("aside.rename-file", from, to);
    return;
  }
  files.mkdir("aside.mkdir", to, DIRECTORY_MODE);
  for (const name of files.readdir(from)) moveTree(platform, join(from, name), join(to, name));
  files.syncDirectory("aside.sync", to);
  files.rmdir("aside.rmdir", from);
}
