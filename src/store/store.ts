/** A store as its users hold it: every operation bound to one opened context. */
import { check } from "./check.ts";
import { gc } from "./gc.ts";
import { messages, peek, readMessages, snapshot } from "./inspect.ts";
import { openContext } from "./open.ts";
import { claim, renew } from "./operations/claim.ts";
import { enqueueMany } from "./operations/enqueue.ts";
import {
  listFailed,
  pruneFailed,
  pruneFailedOf,
  readFailed,
  retryFailed,
  showFailed,
} from "./operations/failed.ts";
import { ack, quarantine, release, requeue } from "./operations/finish.ts";
import { finishAndClaim } from "./operations/turn.ts";
import { migrate } from "./operations/migrate.ts";
import { clearQueue, createQueue, listQueues, removeQueue } from "./operations/queues.ts";
import type { Store, StoreOptions } from "./types.ts";

/**
 * Opens the v2 store in `root`; see {@link Store} for what it does. Nothing needs closing.
 *
 * ```ts
 * const store = await openStore(dir);
 * await store.enqueue("jobs", "a1", { n: 1 });
 * for (const claim of await store.claim("jobs")) {
 *   await handle(claim.json());
 *   await store.ack(claim.receipt);
 * }
 * ```
 */
export async function openStore(root: string, options: StoreOptions = {}): Promise<Store> {
  const context = await openContext(root, options);
  return {
    root: context.paths.root,
    storeId: context.storeId,
    enqueue: async (queue, id, payload, { encoding } = {}) => {
      const entry = encoding === undefined ? { id, payload } : { id, payload, encoding };
      return (await enqueueMany(context, queue, [entry]))[0]!;
    },
    enqueueMany: (queue, entries, enqueueOptions) =>
      enqueueMany(context, queue, entries, enqueueOptions),
    claim: (queue, claimOptions) => claim(context, queue, claimOptions),
    finishAndClaim: (queue, endings, claimOptions) =>
      finishAndClaim(context, queue, endings, claimOptions),
    renew: (receipts, owner) => renew(context, receipts, owner),
    migrate: (held, fn, migrateOptions) => migrate(context, held, fn, migrateOptions),
    ack: (...receipts) => ack(context, receipts),
    requeue: (...receipts) => requeue(context, receipts),
    release: (which, releaseOptions) => release(context, which, releaseOptions),
    quarantine: (receipt, quarantineOptions) => quarantine(context, receipt, quarantineOptions),
    createQueue: (queue) => createQueue(context, queue),
    removeQueue: (queue, removeOptions) => removeQueue(context, queue, removeOptions),
    clear: (queue, clearOptions) => clearQueue(context, queue, clearOptions),
    listQueues: (prefix) => listQueues(context, prefix),
    snapshot: () => snapshot(context),
    messages: (filter) => messages(context, filter),
    peek: (queue, peekOptions) => peek(context, queue, peekOptions),
    read: (filter) => readMessages(context, filter),
    failed: {
      list: () => listFailed(context),
      show: (failedId) => showFailed(context, failedId),
      read: (filter) => readFailed(context, filter),
      retry: async (failedId) => (await retryFailed(context, [failedId]))[0]!,
      retryMany: (failedIds, admit) => retryFailed(context, failedIds, admit),
      prune: (failedIds) => pruneFailed(context, failedIds),
      pruneQueue: (queue, failedIds) => pruneFailedOf(context, queue, failedIds),
    },
    check: () => check(context),
    gc: () => gc(context),
  };
}
