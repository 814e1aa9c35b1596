/** What is done with recorded submissions, as operations of the durable store. */
import { AgentqError, isAgentqError } from "../errors.ts";
import type { Oid } from "../git/types.ts";
import { takenBy } from "./foreign-claim.ts";
import type { Claim, Json, MessageInfo, Receipt, Store } from "../store/types.ts";
import {
  isDelivery,
  isFree,
  isOurs,
  nameOf,
  NEWER,
  owner,
  recordOf,
  type SubmissionRecord,
  ticketIn,
  unusable,
} from "./submission-record.ts";
import type { TicketNotes } from "./ticket-notes.ts";

const QUEUE = "submissions";

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
  /**
   * Moves one that can't be used to the store's dead letters, bytes and all, by its name or its
   * submission's; its name, or null where there is none such. @throws `submission-busy` where a queue command has it
   */
  setAside(name: string): Promise<string | null>;
  /**
   * Notes whether the submitter was told what it asked for, the ticket alone: it doesn't wait for the result. A power
   * cut may take that away.
   */
  tell(record: SubmissionRecord, told: boolean): void;
  /** Forgets submissions whose result was told, or that are nothing any more. */
  forget(records: readonly SubmissionRecord[]): Promise<void>;
  /** Why nobody can deliver it, where that isn't another delivery: `submission-busy` with what helps; else null. */
  takenAway(record: SubmissionRecord): Promise<AgentqError | null>;
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
  /** Only those whose submitters wait for nothing more; false: only the others. */
  readonly told?: boolean;
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

export function onStore(store: Store, notes: TicketNotes): Submissions {
  /** Takes hold of a submission for this process; null when another living one has it. */
  async function hold(id: string): Promise<Claim | null> {
    for (let attempt = 0; attempt < 3; attempt++) {
      const [claim] = await store.claim(QUEUE, { id, owner: owner() });
      if (!claim) return null;
      if (isOurs(claim.owner) || ticketIn(claim.owner) !== null) return claim;
      if (!isFree(claim.owner)) return null;
      try {
        // Only one of several can release it: the others' receipts are stale then.
        await store.release([claim.receipt]);
      } catch (error) {
        if (!isAgentqError(error, "stale-generation")) throw error;
      }
    }
    return null;
  }

  async function takenAway(
    id: string,
    what = `the submission ${id}`,
  ): Promise<AgentqError | null> {
    const claimed = await store.messages({ queue: QUEUE, state: "claimed" });
    const found = claimed.find((one) => one.id === id);
    const note = found?.reference.owner ?? null;
    return found === undefined || isDelivery(note) ? null : takenBy(note, { id, what }, store.root);
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

  /** Why a message is passed over, and what can be done; null when it is a record. */
  function remarkOn(claim: Claim): string | null {
    const problem = unusable(claim);
    if (problem === null) return null;
    const { id } = claim.receipt;
    const remedy = problem === NEWER ? "" : `; agentq flush --drop ${id} sets it aside`;
    return `the submission ${id} of this machine is passed over: ${problem}${remedy}`;
  }

  return {
    listed: () => listed,
    damaged: () => [...damaged.values()],
    async list({ candidate, undelivered, before, told, except } = {}) {
      const prefix = candidate === undefined ? "" : `${candidate.slice(0, 16)}.`;
      const all = await store.messages({ queue: QUEUE, limit: MAX_RECORDS });
      listed = all.length;
      const ticketOf = knownTickets(all);
      const toldOnes = told === undefined ? null : notes.told();
      const infos = all.filter((info) => {
        const { id } = info;
        const ticket = ticketOf(info);
        return id.startsWith(prefix) && !(except && id === nameOf(except)) &&
          !(undelivered && ticket !== null) &&
          (toldOnes === null || toldOnes.has(id) === told) &&
          (before === undefined || (ticket !== null && ticket < before));
      });
      if (infos.length === 0) return [];
      // Without the lock: listing never waits for a submission under way, nor makes it wait.
      const claims = await store.peek(QUEUE, { ids: infos.map(({ id }) => id) });
      return claims.flatMap((claim) => {
        const record = recordOf(claim);
        const remark = remarkOn(claim);
        if (remark !== null) damaged.set(claim.receipt.id, remark);
        if (!record) return [];
        const ticket = record.ticket ?? ticketOf(claim.receipt);
        const holder = ticket === null ? claim.owner : null;
        return [{ ...record, ticket, ...(holder !== null && { holder }) }];
      });
    },
    async record({ ticket: _none, ...record }) {
      await store.enqueue(QUEUE, nameOf(record), record as unknown as Json);
    },
    async setAside(name) {
      const found = (await store.messages({ queue: QUEUE }))
        .find(({ id }) => id === name || id.slice(id.indexOf(".") + 1) === name);
      const claim = found ? await hold(found.id) : null;
      if (claim === null) {
        const taken = found ? await takenAway(found.id) : null;
        if (taken !== null) throw taken;
        return null;
      }
      const problem = unusable(claim);
      if (problem === null) {
        if (ticketIn(claim.owner) === null) await unlessStale(store.release([claim.receipt]));
        return null;
      }
      await store.quarantine(claim.receipt, { reason: problem });
      return claim.receipt.id;
    },
    tell: (record, told) => notes.tell(nameOf(record), told),
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
    takenAway: (record) =>
      takenAway(nameOf(record), `the submission of commit ${record.candidate}`),
    async exclusively(wanted, deliver) {
      let claim = await hold(nameOf(wanted));
      if (claim === null) return null;
      const record = recordOf(claim);
      let done = ticketIn(claim.owner) !== null;
      try {
        if (record === null) return null;
        const change = async ({ ticket: _none, ...changed }: SubmissionRecord) => {
          claim = await store.migrate(claim!, () => changed as unknown as Json)
            .catch((error) => {
              if (!isAgentqError(error, "stale-generation")) throw error;
              throw new AgentqError(
                "submission-busy",
                `another process has taken over the submission ${record.submission}`,
                { cause: error },
              );
            });
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
