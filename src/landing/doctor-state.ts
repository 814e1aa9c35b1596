/** What keeps this machine's submissions from being recorded, though its state directory can be written. */
import { isAgentqError } from "../errors.ts";
import { openStore, standingLock } from "../store/mod.ts";
import { type Check, check, failed } from "./doctor-check.ts";
import { openSubmissions, submissionsDirectory } from "./submissions.ts";

/** The check that `submit` would meet as an error or a warning; null when it would meet nothing. */
export async function submissionsTrouble(
  name: string,
  stateDirectory: string,
): Promise<Check | null> {
  const root = submissionsDirectory(stateDirectory);
  try {
    const locked = await standingLock(root);
    if (locked !== null) return failed(name, locked);
    await openStore(root);
    const submissions = await openSubmissions(stateDirectory);
    await submissions?.list();
    const damaged = submissions?.damaged() ?? [];
    return damaged.length === 0 ? null : check(name, "warn", damaged.join("; "));
  } catch (error) {
    // A submission makes it, or makes it anew where nothing can have been recorded.
    if (isAgentqError(error, "store-missing", "init-incomplete")) return null;
    return failed(name, error);
  }
}
