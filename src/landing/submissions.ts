/**
 * This machine's own submissions, in the durable store: what a crash anywhere must not forget.
 *
 *     recorded (intent, durable) ──push──▶ ticket noted ──result known──▶ removed
 *         │ origin out of reach, --offline
 *         └──▶ kept ──claimed by one process──▶ since known ──push──▶ ticket known ──▶ removed
 *
 *     in the store:  pending │ claimed, owner: a process │ claimed, owner: {ticket} │ gone
 *
 * The ticket of a submission that was kept stands in its claim's note. That of one which was pushed at
 * once is noted beside the store (`ticket-notes.ts`), without a sync.
 *
 * `since` is the queue's head before the first attempt: an attempt that got through unseen can only be
 * among the tickets after it. A submission kept offline has none yet; so that two processes that
 * deliver it can't choose two, it is claimed first, and `since` is durable before anything is pushed.
 * A claim whose process is proved gone is taken over; no other is.
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { AgentqError, isAgentqError } from "../errors.ts";
import type { Oid } from "../git/types.ts";
import { nodeFiles } from "../platform/files.ts";
import type { Input } from "../platform/inputs.ts";
import { syncElsewhere } from "../platform/sync-elsewhere.ts";
import { storePaths } from "../store/layout.ts";
import type { Claim, Json, MessageInfo, Receipt, Store } from "../store/types.ts";
import {
  isGone,
  isOurs,
  nameOf,
  owner,
  recordOf,
  type SubmissionRecord,
  ticketIn,
  unusable,
} from "./submission-record.ts";

import { type TicketNotes, ticketNotes, ticketNotesDirectory } from "./ticket-notes.ts";

export { draftOf, isUnderWay, type SubmissionRecord } from "./submission-record.ts";

const QUEUE = "submissions";

/** While an intent is made to last a push is prepared: so other threads make all its syncs. */
const patientFiles = { ...nodeFiles, syncAll: syncElsewhere };

/** More than anybody has outstanding; a bound for what is read at once. */
const MAX_RECORDS = 1000;

export interface Submissions {
  /** Those that `filter` lets through, oldest first. */
  list(filter?: SubmissionFilter): Promise<SubmissionRecord[]>;
  /** What can't be used of those that the listings of this run read: damaged, or written by a newer agentq. */
  damaged(): readonly string[];
  /** How many there were at the last listing, before it was filtered. */
  listed(): number;
  /** Records an intent. Durable when it returns. */
  record(record: SubmissionRecord): Promise<void>;
  /** Notes the ticket that a submission got. A power cut may take that away. @throws `io-error` */
  settle(record: SubmissionRecord, ticket: number): void;
  /** Forgets submissions whose result is known. */
  forget(records: readonly SubmissionRecord[]): Promise<void>;
  /**
   * Runs `deliver` while this process alone may deliver the submission; null when another process does
   * already, or when it is gone. `deliver` says what it learns with the functions it is given.
   */
  exclusively<T>(
    record: SubmissionRecord,
    deliver: (record: SubmissionRecord, learn: Learn) => Promise<T>,
  ): Promise<T | null>;
}

/** Narrows a listing to what can be told without reading the records. */
export interface SubmissionFilter {
  readonly candidate?: Oid;
  /** Only those that have no ticket yet. */
  readonly undelivered?: boolean;
  /** Only those with a ticket before this one. */
  readonly before?: number;
  /** Not this one. */
  readonly except?: SubmissionRecord;
}

/** Makes what was learned about a submission durable. */
export interface Learn {
  /** The branch and the queue's head before the first push. */
  since(branch: string, head: Oid | null): Promise<void>;
  /** The record as it is from here on, all at once. */
  change(record: SubmissionRecord): Promise<void>;
  /** That there is nothing to deliver: it is forgotten before another process can take it up. */
  nothing(): Promise<void>;
  ticket(ticket: number): Promise<void>;
}

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
    if (code === "ENOENT" || code === "ENOTDIR") {
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

function onStore(store: Store, notes: TicketNotes): Submissions {
  /** Takes hold of a submission for this process; null when another living one has it. */
  async function hold(id: string): Promise<Claim | null> {
    for (let attempt = 0; attempt < 3; attempt++) {
      const [claim] = await store.claim(QUEUE, { id, owner: owner() });
      if (!claim) return null;
      if (isOurs(claim.owner) || ticketIn(claim.owner) !== null) return claim;
      if (!isGone(claim.owner)) return null;
      try {
        // Only one of several can release it: the others' receipts are stale then.
        await store.release([claim.receipt]);
      } catch (error) {
        if (!isAgentqError(error, "stale-generation")) throw error;
      }
    }
    return null;
  }

  let listed = 0;
  const damaged = new Map<string, string>();

  /** Notes are looked at where a claim doesn't say it. */
  function knownTickets(infos: readonly MessageInfo[]) {
    let noted: ReadonlyMap<string, number> | undefined;
    const inClaims = new Map(infos.map(({ id, reference }) => [
      id,
      ticketIn(reference.owner ?? null),
    ]));
    return ({ id }: { readonly id: string }): number | null =>
      inClaims.get(id) ?? (noted ??= notes.read()).get(id) ?? null;
  }

  return {
    listed: () => listed,
    damaged: () => [...damaged.values()],
    async list({ candidate, undelivered, before, except } = {}) {
      const prefix = candidate === undefined ? "" : `${candidate.slice(0, 16)}.`;
      const all = await store.messages({ queue: QUEUE, limit: MAX_RECORDS });
      listed = all.length;
      const ticketOf = knownTickets(all);
      const infos = all.filter((info) => {
        const { id } = info;
        const ticket = ticketOf(info);
        return id.startsWith(prefix) && !(except && id === nameOf(except)) &&
          !(undelivered && ticket !== null) &&
          (before === undefined || (ticket !== null && ticket < before));
      });
      if (infos.length === 0) return [];
      // Without the lock: listing never waits for a submission under way, nor makes it wait.
      const claims = await store.peek(QUEUE, { ids: infos.map(({ id }) => id) });
      return claims.flatMap((claim) => {
        const record = recordOf(claim);
        if (record === null) {
          const { id } = claim.receipt;
          damaged.set(
            id,
            `the submission ${id} of this machine is passed over: ${unusable(claim)}`,
          );
        }
        return record ? [{ ...record, ticket: record.ticket ?? ticketOf(claim.receipt) }] : [];
      });
    },
    async record({ ticket: _none, ...record }) {
      await store.enqueue(QUEUE, nameOf(record), record as unknown as Json);
    },
    settle: (record, ticket) => notes.write(nameOf(record), ticket),
    async forget(records) {
      const wanted = new Set(records.map(nameOf));
      if (wanted.size === 0) return;
      const found = (await store.messages({ queue: QUEUE })).filter(({ id }) => wanted.has(id));
      const pending = found.filter(({ state }) => state === "pending").map(({ id }) => id);
      const receipts: Receipt[] = [
        ...found.filter(({ state }) => state === "claimed").map(({ receipt }) => receipt),
        ...(pending.length === 0
          ? []
          : (await store.claim(QUEUE, { ids: pending, owner: owner() })).map(({ receipt }) =>
            receipt
          )),
      ];
      // Stale: another process of ours has just done the same.
      if (receipts.length > 0) await unlessStale(store.ack(...receipts));
      notes.remove(wanted);
    },
    async exclusively(wanted, deliver) {
      let claim = await hold(nameOf(wanted));
      if (claim === null) return null;
      const record = recordOf(claim);
      let done = ticketIn(claim.owner) !== null;
      try {
        if (record === null) return null;
        const change = async ({ ticket: _none, ...changed }: SubmissionRecord) => {
          claim = await store.migrate(claim!, () => changed as unknown as Json);
        };
        return await deliver(record, {
          // Never pushed yet: it is one that was kept, and it stays that whatever becomes of the push.
          since: (branch, head) => change({ ...record, branch, since: head, kept: true }),
          change,
          async nothing() {
            await store.ack(claim!.receipt);
            done = true;
          },
          async ticket(ticket) {
            await unlessStale(store.renew([claim!.receipt], { ticket }));
            done = true;
          },
        });
      } finally {
        if (!done) await unlessStale(store.release([claim.receipt]));
      }
    },
  };
}

async function unlessStale(work: Promise<unknown>): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!isAgentqError(error, "stale-generation")) throw error;
  }
}
