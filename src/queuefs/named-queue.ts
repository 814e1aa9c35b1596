/**
 * One named queue as an application uses it: data in, a handler, and the question whether all is done.
 * Status and waits are the backend's snapshots; the counters beside them are telemetry.
 */
import { waitComplete, type WaitOptions } from "./completion.ts";
import type { Delivery, DequeueOptions, QueueBackend, QueueCounts } from "./contract.ts";
import { emptyMetrics, type WorkerMetrics } from "./metrics.ts";
import { checkQueueName } from "./names.ts";
import { workerOwner } from "./owner.ts";
import { bytesOf } from "./payload.ts";
import { type Handler, startWorker, type Worker, type WorkerOptions } from "./worker.ts";
import { ackOrThrow } from "./backends/shared.ts";

/** What may be enqueued: bytes, text, or any JSON value (stored as JSON text). */
export type Data = Uint8Array | string | { readonly json: unknown };

export interface NamedQueueOptions {
  /** Called before each enqueue: checks the data (by throwing) or replaces them. */
  readonly onEnqueue?: (data: Data) => Data | Promise<Data>;
  /** Called for each message once `start` was called. */
  readonly handler?: Handler;
  readonly worker?: WorkerOptions;
}

export interface NamedQueueStatus extends QueueCounts {
  readonly unacked: number;
  readonly complete: boolean;
}

export interface NamedQueue {
  readonly backend: QueueBackend;
  readonly name: string;
  /** Makes the queue when it isn't there, and returns the message's id. */
  enqueue(data: Data, options?: { id?: string }): Promise<string>;
  /** Takes one message, or null. The caller acks it, and renews it where it takes longer than the lease. */
  dequeue(options?: Partial<DequeueOptions>): Promise<Delivery | null>;
  /** Throws `stale-delivery` when the delivery is no longer current. */
  ack(delivery: Delivery): Promise<void>;
  getStatus(): Promise<NamedQueueStatus>;
  waitComplete(options?: WaitOptions): Promise<void>;
  /** Counters of the worker; never a queue length. */
  readonly metrics: Readonly<WorkerMetrics>;
  /** Starts the worker with the handler. Throws when there is none. */
  start(): Worker;
  /** Stops the worker, if one was started, leaving nothing half done. */
  stop(graceMs?: number): Promise<void>;
}

/**
 * ```ts
 * const jobs = namedQueue(sqliteBackend("queue.db", { create: true }), "jobs", {
 *   handler: async (message) => await resize(message.data),
 *   worker: { concurrency: 4 },
 * });
 * await jobs.enqueue({ json: { image: "a.png" } });
 * jobs.start();
 * await jobs.waitComplete();
 * await jobs.stop();
 * ```
 */
export function namedQueue(
  backend: QueueBackend,
  name: string,
  options: NamedQueueOptions = {},
): NamedQueue {
  checkQueueName(name);
  const owner = workerOwner();
  const idle = emptyMetrics();
  let worker: Worker | null = null;
  let created = false;
  const ensure = async () => {
    if (!created) await backend.create(name);
    created = true;
  };
  return {
    backend,
    name,
    enqueue: async (given, { id } = {}) => {
      const data = options.onEnqueue ? await options.onEnqueue(given) : given;
      await ensure();
      const [made] = await backend.enqueue(name, [
        { ...(id === undefined ? {} : { id }), data: toBytes(data) },
      ]);
      return made!;
    },
    dequeue: async (dequeueOptions = {}) => {
      await ensure();
      const defaults = { owner, leaseMs: options.worker?.leaseMs ?? 30_000 };
      const [delivery] = await backend.dequeue(name, { ...defaults, ...dequeueOptions, count: 1 });
      return delivery ?? null;
    },
    ack: ({ id, lease }) => ackOrThrow(backend, name, [{ id, lease }]),
    getStatus: async () => {
      await ensure();
      const { pending, processing } = await backend.status(name);
      const unacked = pending + processing;
      return { pending, processing, unacked, complete: unacked === 0 };
    },
    waitComplete: async (waitOptions) => {
      await ensure();
      await waitComplete(backend, [name], waitOptions);
    },
    get metrics() {
      return worker?.metrics ?? idle;
    },
    start: () => {
      if (options.handler === undefined) throw new TypeError(`the queue ${name} has no handler`);
      worker ??= startWorker(backend, name, options.handler, options.worker);
      return worker;
    },
    stop: async (graceMs) => {
      const stopped = worker;
      worker = null;
      if (stopped) Object.assign(idle, stopped.metrics);
      await stopped?.stop(graceMs);
      if (stopped) Object.assign(idle, stopped.metrics);
    },
  };
}

function toBytes(data: Data): Uint8Array {
  if (data instanceof Uint8Array) return data;
  return bytesOf(typeof data === "string" ? data : JSON.stringify(data.json));
}
