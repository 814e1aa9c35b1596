/** Queues in one SQLite file, through the runtime's own `node:sqlite`. Layout: `schema.ts`. */
import { absolutePath } from "../../../platform/directory.ts";
import { type LeaseClock, systemClock } from "../../clock.ts";
import type { QueueBackend } from "../../contract.ts";
import { checkQueueName } from "../../names.ts";
import { recoverWatching } from "../../watch.ts";
import { noQueue, realPlace } from "../shared.ts";
import { openDatabase, type SqliteOptions } from "./database.ts";
import { listFailed, pruneFailed, retryFailed, showFailed } from "./dead-letters.ts";
import { enqueue } from "./enqueue.ts";
import * as look from "./look.ts";
import { recover } from "./recover.ts";
import * as settle from "./settle.ts";
import * as take from "./take.ts";

/** Opens the queues in `file`. Throws `backend-missing`, `backend-corrupt` and the like. */
export function sqliteBackend(
  file: string,
  options: SqliteOptions & { clock?: LeaseClock } = {},
): QueueBackend {
  const clock = options.clock ?? systemClock;
  const db = openDatabase(file, options);
  const path = absolutePath(file);
  const name = checkQueueName;

  const inTree = "(queue_name = ?1 OR substr(queue_name, 1, length(?1) + 1) = ?1 || '/')";
  const all = (prefix: string | undefined) =>
    db.sql(
      prefix === undefined
        ? "SELECT queue_name FROM queue_metadata ORDER BY queue_name"
        : `SELECT queue_name FROM queue_metadata WHERE ${inTree} ORDER BY queue_name`,
    ).all(...(prefix === undefined ? [] : [prefix])).map((row) => String(row.queue_name));
  const known = (queue: string) => {
    db.run(() => look.requireQueue(db, name(queue)));
    return queue;
  };

  return {
    kind: "sqlite",
    label: db.label,
    identity: () => `sqlite ${db.id} ${realPlace(path)}`,
    create: async (queue) =>
      db.run(() =>
        Number(
          db.sql("INSERT OR IGNORE INTO queue_metadata (queue_name) VALUES (?1)").run(name(queue))
            .changes,
        ) > 0
      ),
    remove: async (queue) =>
      db.write(() => {
        name(queue);
        const removed = new Set(all(queue));
        const rows = db.sql(
          `DELETE FROM queue_messages WHERE ${inTree} RETURNING queue_name`,
        ).all(queue);
        for (const row of rows) removed.add(String(row.queue_name));
        if (removed.size === 0) throw noQueue(queue);
        db.sql(`DELETE FROM agentq_failed WHERE ${inTree}`).run(queue);
        db.sql(`DELETE FROM queue_metadata WHERE ${inTree}`).run(queue);
        return [...removed].sort();
      }),
    list: async (prefix) => db.run(() => all(prefix)),
    enqueue: async (queue, messages) => enqueue(db, name(queue), messages, Date.now()),
    dequeue: async (queue, { count = 1, ...options }) =>
      take.dequeue(db, name(queue), { ...options, count }, clock),
    settleAndDequeue: async (queue, endings, { count = 1, ...options }) =>
      take.settleAndDequeue(db, name(queue), endings, { ...options, count }, clock),
    ack: async (queue, receipts) => settle.ack(db, name(queue), receipts),
    requeue: async (queue, receipts, { counted = true } = {}) =>
      settle.requeue(db, name(queue), receipts, counted),
    fail: async (queue, receipts, reason) =>
      db.write(() => {
        known(queue);
        return receipts.map((receipt) => settle.failOne(db, queue, receipt, reason));
      }),
    renew: async (queue, receipts, leaseMs) =>
      settle.renew(db, name(queue), receipts, leaseMs, clock),
    peek: async (queue) => look.peek(db, name(queue)),
    status: async (queue) => look.counts(db, name(queue)),
    statuses: async (queues) =>
      db.read(() =>
        new Map((queues ?? all(undefined)).map((queue) => [queue, look.counts(db, queue)]))
      ),
    complete: async (queues) => look.complete(db, queues.map(name)),
    messages: async (queue) => look.messages(db, name(queue)),
    clear: async (queue) =>
      db.run(() => {
        const removed = Number(
          db.sql("DELETE FROM queue_messages WHERE queue_name = ?1").run(name(queue)).changes,
        );
        if (removed === 0) known(queue);
        return removed;
      }),
    recover: async (queue, options = {}) => {
      const queues = queue === null ? db.run(() => all(undefined)) : [name(queue)];
      return await recoverWatching(
        options,
        (mayTake) => queues.flatMap((each) => recover(db, each, clock, mayTake)),
      );
    },
    failed: {
      list: async (queue, limit = -1) => listFailed(db, known(queue), limit),
      show: async (queue, failedId) => showFailed(db, known(queue), failedId),
      retry: async (queue, failedIds) => retryFailed(db, known(queue), failedIds, Date.now()),
      prune: async (queue, which = {}) => pruneFailed(db, known(queue), which),
    },
    close: async () => db.close(),
  };
}
