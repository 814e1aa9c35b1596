/**
 * Directories of v1 queues, for what v1 can do: enqueue, dequeue, ack, fail, and looking.
 *
 * The queue NAME of `v1:DIR` is the directory DIR/NAME. Where DIR itself is a v1 queue, it is the queue of
 * DIR's own last name (`queue` where that is no queue's name), and no other. No part of a name may be `failed`: that is where a queue's dead letters
 * lie. v1 has no leases, no attempts, no reasons and no way back to pending, so `requeue`, `recover`, `renew`,
 * `clear`, `rm` and `failed retry|prune` are `backend-unsupported`, and a message that was taken and not
 * acked stays in processing.
 */
import { randomUUID } from "node:crypto";
import { existsSync, lstatSync } from "node:fs";
import { basename, join } from "node:path";
import { AgentqError, isAgentqError } from "../../errors.ts";
import { absolutePath, withoutLinks } from "../../platform/directory.ts";
import { readPlainFile } from "../../platform/plain-file.ts";
import type { Json } from "../../store/mod.ts";
import { openV1Queue, type V1Queue } from "../../store/v1.ts";
import { refuseStore } from "../../store/v2-marks.ts";
import type {
  DeadLetter,
  Delivery,
  QueueBackend,
  QueueCounts,
  Receipt,
  Settlement,
} from "../contract.ts";
import { checkMessageId, isInTree, quoted } from "../names.ts";
import { noDeadLetter, noQueue, realPlace } from "./shared.ts";
import {
  below,
  checkV1Name,
  FAILED,
  foreignIn,
  isEmptyDirectory,
  isQueueDirectory,
  isV1Name,
  makeQueue,
  noPlaceForQueue,
  refuseLink,
  requireDirectory,
} from "./v1-directories.ts";
import { inTurn } from "./v1-turns.ts";
import { fromV1Payload, inPart, MAX_FILE_BYTES, readJson, toV1Payload } from "./v1-payload.ts";

const LEASE = "v1";
/** The queue that is the directory itself, where the directory's name can't be a queue's. */
const UNNAMED = "queue";
/** What an operator can do about a claim that nobody will end. */
const AGAIN =
  "To have it given out again enqueue what it holds (queue messages NAME) with its --id, then ack the old one. ";
const NO_REASON = "v1 keeps no reason";

/** Opens the v1 queues below (or in) `root`. Throws `backend-missing`, `v2-directory`, `helper-unavailable`. */
export function v1Backend(root: string, options: { create?: boolean } = {}): QueueBackend {
  const named = absolutePath(root);
  refuseStore(named);
  requireDirectory(named, options.create ?? false);
  const directory = withoutLinks(named);
  const queues = new Map<string, V1Queue>();
  const itself = isV1Name(basename(named)) ? basename(named) : UNNAMED;
  const pathOf = (name: string) => {
    let own = directory;
    for (const part of checkV1Name(name).split("/")) {
      refuseStore(own = join(own, part));
      refuseLink(own, directory);
    }
    return name === itself && isQueueDirectory(directory) && !isQueueDirectory(own)
      ? directory
      : own;
  };
  const open = async (name: string): Promise<V1Queue> => {
    const path = pathOf(name);
    // An empty directory is a queue too: fs-safe may keep the dead letters of one elsewhere.
    if (!isQueueDirectory(path) && !isEmptyDirectory(path)) throw notThere(name, path);
    refuseLink(join(path, FAILED), directory);
    let queue = queues.get(path);
    if (queue === undefined) queues.set(path, queue = await openV1Queue(path, { prepare: false }));
    return queue;
  };
  const notThere = (name: string, path: string): AgentqError => {
    const place = name === itself && foreignIn(path) === null ? directory : path;
    const foreign = foreignIn(place);
    if (foreign === null) return noQueue(name);
    const { message, hint, details } = noPlaceForQueue(place, foreign);
    return new AgentqError(
      "queue-not-found",
      `there is no queue ${quoted(name)}: ${message}`,
      { hint, ...(details === undefined ? {} : { details }) },
    );
  };
  const list = (): string[] => {
    const names = below(directory, "");
    return isQueueDirectory(directory) && !names.includes(itself) ? [itself, ...names] : names;
  };
  const counts = async (name: string): Promise<QueueCounts> => {
    const { pending, processing } = (await open(name)).counts();
    return { pending, processing };
  };
  const settle = async (
    name: string,
    receipts: readonly Receipt[],
    one: (queue: V1Queue, id: string) => Promise<void>,
  ): Promise<Settlement[]> => {
    const queue = await open(name);
    const settlements: Settlement[] = [];
    for (const receipt of receipts) {
      const current = (!("lease" in receipt) || receipt.lease === LEASE) &&
        queue.processing().includes(receipt.id);
      try {
        if (current) await one(queue, receipt.id);
        settlements.push(current ? "done" : "stale");
      } catch (error) {
        if (!isAgentqError(error, "stale-generation", "name-invalid", "not-found")) throw error;
        settlements.push("stale");
      }
    }
    return settlements;
  };
  const cannot = (what: string, instead = "") => () =>
    Promise.reject(
      new AgentqError("backend-unsupported", `v1:${root}: v1 queues can't ${what}`, {
        hint: `${instead}Use a v2 store (store:DIR), which can; see docs/queues.md.`,
      }),
    );
  const show = (queue: V1Queue, name: string, failedId: string): DeadLetter => {
    if (!queue.failed().includes(failedId)) throw noDeadLetter(name, failedId);
    const path = join(queue.failedDirectory, `${failedId}.json`);
    const data = readJson(path);
    const raw = data === null ? readPlainFile(path, { limit: MAX_FILE_BYTES }) : null;
    return {
      failedId,
      queue: name,
      id: failedId,
      reason: NO_REASON,
      attempts: 1,
      failedAt: Math.floor(lstatSync(path).mtimeMs),
      data,
      raw: raw && new TextDecoder().decode(raw),
    };
  };

  const dequeue = async (name: string, count: number): Promise<Delivery[]> => {
    const queue = await open(name);
    return count === 0 ? [] : await inTurn(queue.directory, () => take(queue, count));
  };

  const take = async (queue: V1Queue, count: number): Promise<Delivery[]> => {
    const deliveries: Delivery[] = [];
    // What is claimed has no way back, so what was taken before something failed is handed out.
    const orTaken = async <T>(step: Promise<T>, failed: T): Promise<T> => {
      try {
        return await step;
      } catch (error) {
        if (deliveries.length === 0) throw error;
        return failed;
      }
    };
    while (deliveries.length < count) {
      const want = count - deliveries.length;
      const claims = await orTaken(queue.claim({ count: want }), []);
      // Those that can be handed out first.
      claims.sort((a, b) => Number(a.unreadable !== null) - Number(b.unreadable !== null));
      for (const { id, payload, unreadable } of claims) {
        if (unreadable !== null) await orTaken(queue.fail(id), undefined);
        else {deliveries.push({
            id,
            data: fromV1Payload(payload as Json),
            lease: LEASE,
            attempts: 0,
          });}
      }
      if (claims.length < want) break;
    }
    return deliveries;
  };

  const noWayBack = cannot("put a message back", AGAIN);

  return {
    kind: "v1",
    label: `v1:${root}`,
    identity: () => `v1 ${realPlace(absolutePath(root))}`,
    create: async (name) => {
      const path = pathOf(name);
      if (isQueueDirectory(path)) return false;
      const foreign = foreignIn(path);
      if (foreign !== null) throw noPlaceForQueue(path, foreign);
      const created = makeQueue(path);
      queues.set(path, await openV1Queue(path));
      return created;
    },
    remove: cannot("be removed"),
    list: async (prefix) => list().filter((name) => prefix === undefined || isInTree(name, prefix)),
    enqueue: async (name, messages) => {
      const rows = messages.map(({ id, data }) => ({
        id: id === undefined ? randomUUID() : checkMessageId(id),
        payload: toV1Payload(data),
      }));
      const queue = await open(name);
      const enqueued: string[] = [];
      for (const { id, payload } of rows) {
        try {
          await queue.enqueue(id, payload);
        } catch (error) {
          throw enqueued.length === 0 ? error : inPart(error, enqueued, rows.length);
        }
        enqueued.push(id);
      }
      return enqueued;
    },
    dequeue: (name, { count = 1 }) => dequeue(name, count),
    // v1 has no commit for both: one after the other.
    settleAndDequeue: async (name, endings, { count = 1 }) => {
      if (endings.some(({ how }) => how === "requeue" || how === "release")) {
        return await noWayBack();
      }
      const settlements: Settlement[] = [];
      for (const { how, receipt } of endings) {
        settlements.push(
          ...await settle(
            name,
            [receipt],
            (queue, id) => how === "ack" ? queue.ack(id) : queue.fail(id),
          ),
        );
      }
      return { settlements, deliveries: await dequeue(name, count) };
    },
    ack: (name, receipts) => settle(name, receipts, (queue, id) => queue.ack(id)),
    requeue: noWayBack,
    fail: (name, receipts) => settle(name, receipts, (queue, id) => queue.fail(id)),
    renew: cannot("renew a lease: they have none"),
    peek: async (name) => {
      const queue = await open(name);
      for (const id of queue.pending()) {
        const data = readJson(join(queue.directory, `${id}.json`));
        if (data !== null) return { id, data };
      }
      return null;
    },
    status: counts,
    statuses: async (names) => {
      const all = new Map<string, QueueCounts>();
      for (const name of names ?? list()) all.set(name, await counts(name));
      return all;
    },
    complete: async (names) => {
      for (const name of names) {
        const { pending, processing } = await counts(name);
        if (pending + processing > 0) return false;
      }
      return true;
    },
    messages: async (name) => {
      const queue = await open(name);
      const pathOf = (id: string, suffix: string) => join(queue.directory, `${id}${suffix}`);
      const processing = (id: string) => readJson(pathOf(id, ".processing"), pathOf(id, ".json"));
      const { pending, processing: claimed } = queue.unacked();
      const older = new Set(claimed);
      // One that is claimed meanwhile has both names for a moment, then the other, which may be an older one's.
      const waiting = (id: string) =>
        readJson(pathOf(id, ".json"), pathOf(id, ".processing")) ??
          (older.has(id) && existsSync(pathOf(id, ".json")) ? null : processing(id));
      return [
        ...claimed.map((id) => ({ id, state: "processing" as const, data: processing(id) })),
        ...pending.map((id) => ({ id, state: "pending" as const, data: waiting(id) })),
      ];
    },
    clear: cannot("be cleared"),
    recover: cannot("take a message back", AGAIN),
    failed: {
      list: async (name, limit = Infinity) => {
        const queue = await open(name);
        return queue.failed().slice(0, limit).map((id) => show(queue, name, id));
      },
      show: async (name, failedId) => show(await open(name), name, failedId),
      retry: cannot("retry a dead letter"),
      prune: cannot("prune dead letters"),
    },
    close: async () => {},
  };
}
