/**
 * This machine's own submissions, in the durable store: what a crash anywhere must not forget. Here the
 * store is opened and made; `submission-store.ts` is what is done with it.
 *
 *     recorded (intent, durable) ──push──▶ ticket noted ──result told──▶ removed
 *         │ origin out of reach, --offline
 *         └──▶ kept ──claimed by one process──▶ since known ──push──▶ ticket known ──▶ removed
 *
 *     in the store:  pending │ claimed, owner: a process │ claimed, owner: {ticket} │ gone
 *
 * The ticket of a submission that was kept stands in its claim's note. That of one which was pushed at
 * once is noted beside the store (`ticket-notes.ts`), without a sync. There it is noted too where a submitter was told
 * its ticket and waits for nothing more: only such records are removed by others, once they have results.
 *
 * `since` is the queue's head before the first attempt: an attempt that got through unseen can only be
 * among the tickets after it. A submission kept offline has none yet; so that two processes that
 * deliver it can't choose two, it is claimed first, and `since` is durable before anything is pushed.
 * A claim whose process is proved gone is taken over; no other is.
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { AgentqError, isAgentqError } from "../errors.ts";
import { nodeFiles } from "../platform/files.ts";
import type { Input } from "../platform/inputs.ts";
import { syncElsewhere } from "../platform/sync-elsewhere.ts";
import { storePaths } from "../store/layout.ts";
import { onStore, type Submissions } from "./submission-store.ts";
import { ticketNotes, ticketNotesDirectory } from "./ticket-notes.ts";

export { draftOf, isBeingSent, isUnderWay, type SubmissionRecord } from "./submission-record.ts";
export type { Learn, SubmissionFilter, Submissions } from "./submission-store.ts";

/** While an intent is made to last a push is prepared: so other threads make all its syncs. */
const patientFiles = { ...nodeFiles, syncAll: syncElsewhere };

/** Where they lie below the state directory. */
export function submissionsDirectory(stateDirectory: string): string {
  return join(stateDirectory, "submissions");
}

/**
 * Opens the submissions, or gives null where there is none: a store without payloads has no records,
 * since a payload is durable before its record and goes only with it.
 */
export async function openSubmissions(stateDirectory: string): Promise<Submissions | null> {
  const root = submissionsDirectory(stateDirectory);
  if (!hasPayloads(stateDirectory, root)) return null;
  const { openStore } = await import("../store/mod.ts");
  try {
    return onStore(await openStore(root, { recoverStale: true }), ticketNotes(stateDirectory));
  } catch (error) {
    // Begun by a process that was killed: nothing was ever recorded in it.
    if (isAgentqError(error, "init-incomplete", "store-missing")) return null;
    throw error;
  }
}

/** What a listing of the submissions rests on. Payloads never change while the state names them. */
export function submissionsInputs(stateDirectory: string): Input[] {
  const root = submissionsDirectory(stateDirectory);
  const { namespace, format, state, objects } = storePaths(root);
  return [
    ...[root, namespace, objects, format, state].map((path) => ["file", path] as const),
    ["text", format],
    ["text", state],
    ["file", ticketNotesDirectory(stateDirectory)],
  ];
}

function hasPayloads(stateDirectory: string, root: string): boolean {
  try {
    return readdirSync(join(root, ".fs-safe-queue-v2", "objects")).length > 0;
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code === "ENOENT") {
      return existsSync(join(root, ".fs-safe-queue-v2", "state.json"));
    }
    throw new AgentqError(
      "state-unavailable",
      `the state directory ${stateDirectory} can't be read: ${message}`,
      { cause, details: { path: stateDirectory, errno: code } },
    );
  }
}

/** Opens the submissions, creating the store the first time. @throws `state-unavailable` */
export async function createSubmissions(stateDirectory: string): Promise<Submissions> {
  const root = submissionsDirectory(stateDirectory);
  try {
    const { initStore, openStore } = await import("../store/mod.ts");
    for (let attempt = 0;; attempt++) {
      try {
        const platform = { files: patientFiles };
        const store = await openStore(root, { recoverStale: true, platform });
        return onStore(store, ticketNotes(stateDirectory));
      } catch (error) {
        if (attempt >= 5) throw error;
        await initialise(initStore, root, error);
      }
    }
  } catch (cause) {
    // What is wrong with the store itself, or with the disk, no other directory would be a remedy for.
    if (isAgentqError(cause) && !isOfThePlace(cause)) throw cause;
    throw new AgentqError(
      "state-unavailable",
      `the state directory ${stateDirectory} can't be used: ${(cause as Error).message}`,
      { cause, details: { path: stateDirectory } },
    );
  }
}

/** Nothing can be made or read there, by this user or at all. */
function isOfThePlace({ code, details }: AgentqError): boolean {
  return code === "io-error" &&
    ["EACCES", "EPERM", "EROFS", "ENOTDIR", "ENOENT", "EEXIST", "ELOOP", "ENAMETOOLONG"].includes(
      String(details?.errno),
    );
}

/**
 * Makes the store that opening didn't find. The remains of an interrupted initialisation, in which
 * nothing can have been recorded, are moved aside; a process that is just making it is waited for.
 */
async function initialise(
  initStore: (root: string, options: Record<string, boolean>) => Promise<unknown>,
  root: string,
  found: unknown,
): Promise<void> {
  if (!isAgentqError(found, "store-missing", "init-incomplete")) throw found;
  const options = {
    recoverStale: true,
    resumeAfterInspection: isAgentqError(found, "init-incomplete"),
  };
  try {
    await initStore(root, options).catch(async (error) => {
      if (!isAgentqError(error, "mode-unsupported")) throw error;
      await initStore(root, { ...options, allowOpenModes: true });
    });
  } catch (error) {
    if (!isAgentqError(error, "store-exists", "store-locked", "init-incomplete")) throw error;
    await new Promise((resolve) => setTimeout(resolve, 50 + Math.random() * 100));
  }
}
