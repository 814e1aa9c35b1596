/** The rename that is the commit point, and what stands where it has failed. */
import { AgentqError } from "../errors.ts";
import { errnoOf, ioError } from "../platform/durable.ts";
import { type FileStat, type FileSystem, sameFile } from "../platform/files.ts";
import { isUnchanged, lstatOrNull } from "./admit.ts";
import { assertHeld, type ExclusiveFile } from "./exclusive.ts";
import type { StoreSite } from "./sites.ts";
import type { StoreContext } from "./transaction.ts";

/**
 * The commit: the file in `lock.announcement` becomes the state. `replaced` is the state that was there, `isLocal`
 * whether this kernel alone answers for what happens to the files.
 *
 * A rename that fails has usually not happened; whether it has is looked at where the answer doesn't say so. Throws
 * `io-error` or, where the lock is no longer this process's, `lock-lost`: the old state stands. Else `commit-uncertain`.
 */
export function replaceState(
  context: StoreContext,
  lock: ExclusiveFile,
  written: FileStat,
  replaced: FileStat,
  isLocal: boolean,
): void {
  const { files } = context.platform;
  const { state } = context.paths;
  const { path: temp, fd } = lock.announcement!;
  try {
    files.rename("state.rename", temp, state);
  } catch (error) {
    const cause = ioError("replace", state, error);
    const known = isLocal && SAYS_THAT_NOTHING_HAPPENED.has(errnoOf(error) ?? "");
    const outcome = known ? "not-made" : looked(files, temp, state, written, replaced);
    if (outcome === "made") throw uncertain(state, cause);
    if (outcome === "unknown") throw uncertain(state, cause, "may be in place or not");
    // Whoever took the lock away took the new state's file with it: that is why.
    assertHeld(context.platform, lock);
    throw cause;
  }
  lock.announcement = null;
  files.close(fd);
}

/**
 * What rename(2) answers having changed nothing. Over a network the answer may be that of a second try, and what a disk
 * can't do (EIO) or what isn't known may have come after the change.
 */
const SAYS_THAT_NOTHING_HAPPENED: ReadonlySet<string> = new Set([
  ...[
    "ENOENT",
    "EACCES",
    "EPERM",
    "EROFS",
    "ENOSPC",
    "EDQUOT",
    "EXDEV",
    "EBUSY",
    "EMLINK",
    "ENOMEM",
  ],
  ...["ENOTDIR", "EISDIR", "ENOTEMPTY", "EEXIST", "ELOOP", "ENAMETOOLONG", "EINVAL"],
]);

/** Which state stands after a rename that failed, by what is there. */
function looked(
  files: FileSystem<StoreSite>,
  temp: string,
  state: string,
  written: FileStat,
  replaced: FileStat,
): "made" | "not-made" | "unknown" {
  try {
    const left = lstatOrNull(files, temp);
    // Still under its old name: it wasn't renamed.
    if (left !== null && sameFile(left, written)) return "not-made";
    const now = lstatOrNull(files, state);
    if (now !== null && sameFile(now, written)) return "made";
    return isUnchanged(files, state, replaced) ? "not-made" : "unknown";
  } catch {
    return "unknown";
  }
}

/** `commit-uncertain`: `how` says what is known. */
export function uncertain(
  path: string,
  cause: AgentqError,
  how = "is in place but may not last",
): AgentqError {
  return new AgentqError(
    "commit-uncertain",
    `the new ${path} ${how}: ${cause.message}`,
    { cause, details: { path, ...cause.details } },
  );
}
