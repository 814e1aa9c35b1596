/**
 * This machine's own submissions, in the durable store: what a crash anywhere must not forget.
 *
 *     recorded (intent, durable) ──push──▶ ticket known (durable) ──result known──▶ removed
 *         │ origin out of reach, --offline
 *         └──▶ kept ──claimed by one process──▶ since known ──push──▶ ticket known ──▶ removed
 *
 * `since` is the queue's head before the first attempt: an attempt that got through unseen can only be
 * among the tickets after it. A submission kept offline has none yet; so that two processes that
 * deliver it can't choose two, it is claimed first, and `since` is durable before anything is pushed.
 * A claim whose process is proved gone is taken over; no other is.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod/mini";
import { AgentqError, isAgentqError } from "../errors.ts";
import type { Oid } from "../git/types.ts";
import { isProcessAlive, processIdentity } from "../platform/host.ts";
import type { Claim, Json, Receipt, Store } from "../store/types.ts";
import type { Draft } from "./enqueue.ts";

/** Built when a record is read: a run without submissions pays nothing for it. */
let recordSchemaBuilt: ReturnType<typeof buildRecordSchema> | undefined;
const recordSchema = () => recordSchemaBuilt ??= buildRecordSchema();
const buildRecordSchema = () =>
  z.looseObject({
    v: z.literal(1),
    submission: z.string(),
    /** The git directory of the clone it was submitted from. */
    repository: z.string(),
    /** Name or url of the remote, as given, without credentials. */
    remote: z.string(),
    /** The origin as it may be printed. */
    url: z.string(),
    namespace: z.string(),
    /** null: the origin's HEAD, which wasn't known. */
    branch: z.nullable(z.string()),
    candidate: z.string().check(z.regex(/^[0-9a-f]{40}$/)),
    submitter: z.string(),
    submittedAt: z.number(),
    verifyCmd: z.nullable(z.string()),
    verifyTimeout: z.number(),
    title: z.nullable(z.string()),
    drops: z.array(z.string()),
    /** Absent: nothing was ever pushed. null: the queue didn't exist. */
    since: z.optional(z.nullable(z.string())),
    ticket: z.nullable(z.number()),
  });

/** One submission of this machine that has no result yet, as far as is known here. */
export type SubmissionRecord = z.infer<ReturnType<typeof recordSchema>>;

const QUEUE = "submissions";
/** More than anybody has outstanding; a bound for what is read at once. */
const MAX_RECORDS = 1000;

export interface Submissions {
  /** All of them, oldest first. */
  list(): Promise<SubmissionRecord[]>;
  /** Records a submission, or what is new about it. Durable when it returns. */
  record(record: SubmissionRecord): Promise<void>;
  /** Forgets submissions whose result is known. */
  forget(submissions: readonly string[]): Promise<void>;
  /**
   * Runs `deliver` while this process alone may deliver the submission; null when another process does
   * already, or when it is gone. `deliver` may record what it learns with the function it is given.
   */
  exclusively<T>(
    submission: string,
    deliver: (
      record: SubmissionRecord,
      note: (next: SubmissionRecord) => Promise<void>,
    ) => Promise<T>,
  ): Promise<T | null>;
}

/** Where they lie below the state directory. */
export function submissionsDirectory(stateDirectory: string): string {
  return join(stateDirectory, "submissions");
}

/** Opens the submissions, or null where this machine never recorded one. */
export async function openSubmissions(stateDirectory: string): Promise<Submissions | null> {
  const root = submissionsDirectory(stateDirectory);
  if (!existsSync(join(root, ".fs-safe-queue-v2"))) return null;
  const { openStore } = await import("../store/mod.ts");
  try {
    return onStore(await openStore(root, { recoverStale: true }));
  } catch (error) {
    // Begun by a process that was killed: nothing was ever recorded in it.
    if (isAgentqError(error, "init-incomplete", "store-missing")) return null;
    throw error;
  }
}

/** Opens the submissions, creating the store the first time. @throws `state-unavailable` */
export async function createSubmissions(stateDirectory: string): Promise<Submissions> {
  const root = submissionsDirectory(stateDirectory);
  try {
    const { initStore, openStore } = await import("../store/mod.ts");
    for (let attempt = 0;; attempt++) {
      try {
        return onStore(await openStore(root, { recoverStale: true }));
      } catch (error) {
        if (attempt >= 5) throw error;
        await initialise(initStore, root, error);
      }
    }
  } catch (cause) {
    if (isAgentqError(cause, "limit-exceeded", "store-locked")) throw cause;
    throw new AgentqError(
      "state-unavailable",
      `the state directory ${stateDirectory} can't be used: ${(cause as Error).message}`,
      { cause, details: { path: stateDirectory } },
    );
  }
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

function onStore(store: Store): Submissions {
  const parse = (claim: Claim): SubmissionRecord | null => {
    if (claim.unreadable) return null;
    const parsed = recordSchema().safeParse(claim.json());
    // One that a newer agentq wrote is left to it.
    return parsed.success ? parsed.data : null;
  };

  /** Takes hold of a submission for this process; null when another living one has it. */
  async function hold(submission: string): Promise<Claim | null> {
    for (let attempt = 0; attempt < 3; attempt++) {
      const [claim] = await store.claim(QUEUE, { id: submission, owner: owner() });
      if (!claim) return null;
      if (isOurs(claim.owner)) return claim;
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

  return {
    async list() {
      const infos = await store.messages({ queue: QUEUE, limit: MAX_RECORDS });
      if (infos.length === 0) return [];
      const pending = await store.peek(QUEUE, { count: MAX_RECORDS });
      const records = new Map<string, SubmissionRecord | null>();
      for (const claim of pending) records.set(claim.receipt.id, parse(claim));
      for (const { id, state } of infos) {
        if (state !== "claimed" || records.has(id)) continue;
        // A claimed message is given back as it is, still claimed by whoever holds it.
        const [claim] = await store.claim(QUEUE, { id, owner: owner() });
        if (claim) records.set(id, parse(claim));
        if (claim && isOurs(claim.owner)) await store.release([claim.receipt]);
      }
      return infos.flatMap(({ id }) => records.get(id) ?? []);
    },
    async record(record) {
      await store.enqueue(QUEUE, record.submission, record as unknown as Json);
    },
    async forget(submissions) {
      const receipts: Receipt[] = [];
      for (const id of submissions) {
        for (const { receipt } of await store.claim(QUEUE, { id, owner: owner() })) {
          receipts.push(receipt);
        }
      }
      if (receipts.length === 0) return;
      try {
        await store.ack(...receipts);
      } catch (error) {
        // Another process of ours has just done the same.
        if (!isAgentqError(error, "stale-generation")) throw error;
      }
    },
    async exclusively(submission, deliver) {
      let claim = await hold(submission);
      if (claim === null) return null;
      try {
        const record = parse(claim);
        if (record === null) return null;
        return await deliver(record, async (next) => {
          claim = await store.migrate(claim!, () => next as unknown as Json);
        });
      } finally {
        await store.release([claim.receipt]).catch((error) => {
          if (!isAgentqError(error, "stale-generation")) throw error;
        });
      }
    },
  };
}

function owner(): Json {
  return { ...processIdentity() };
}

const ownerSchema = () =>
  z.object({
    pid: z.number(),
    startTime: z.nullable(z.string()),
    pidNamespace: z.nullable(z.string()),
    bootId: z.nullable(z.string()),
    host: z.string(),
  });

function isOurs(note: Json | null): boolean {
  const parsed = ownerSchema().safeParse(note);
  const me = processIdentity();
  return parsed.success && parsed.data.pid === me.pid && parsed.data.startTime === me.startTime &&
    parsed.data.bootId === me.bootId && parsed.data.pidNamespace === me.pidNamespace;
}

function isGone(note: Json | null): boolean {
  const parsed = ownerSchema().safeParse(note);
  return parsed.success && isProcessAlive(parsed.data) === "gone";
}

/** The ticket that a record asks for. */
export function draftOf(record: SubmissionRecord): Draft {
  return {
    candidate: record.candidate as Oid,
    submitter: record.submitter,
    verifyCmd: record.verifyCmd,
    verifyTimeout: record.verifyTimeout,
    submission: record.submission,
    submittedAt: record.submittedAt,
    title: record.title,
    drops: record.drops,
  };
}
