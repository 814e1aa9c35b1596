/** `queue wait|recover`. */
import { isAgentqError } from "../../../src/errors.ts";
import { abortReason, systemClock } from "../../../src/platform/clock.ts";
import { startWaiting } from "../../../src/platform/waiting.ts";
import { timedOut, waitComplete } from "../../../src/queuefs/completion.ts";
import { openBackend } from "../../../src/queuefs/open.ts";
import type { CommandModule } from "../../spec.ts";
import { milliseconds, withBackend } from "./common.ts";
import { statusDocument } from "./queues.ts";

type Run = CommandModule["run"];

export const wait: Run = (context, [name], flags) => {
  const startedAt = performance.now();
  const timeoutMs = milliseconds(flags, "timeout");
  return withBackend(context, flags, async (backend) => {
    await waitComplete(backend, [name!], {
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
      startedAt,
      signal: context.signal,
      onProgress: (counts) => {
        const { pending, processing } = counts.get(name!)!;
        context.progress.update(`${name}: ${pending} pending, ${processing} processing`);
      },
      onFault: ({ message }) => context.progress.update(`${name}: still waiting: ${message}`),
    });
    context.print(statusDocument({ pending: 0, processing: 0 }), () => `${name} is complete`);
    return 0;
  }, { open: openWithin(timeoutMs, context.signal) });
};

/** What a call may wait for a database's lock: nothing is heard meanwhile. */
const BUSY_MS = 200;
/** For how long all the same a database may be busy that is to be opened. */
const PATIENCE_MS = 5000;
/** However short the time is, a look at the queue should fit. */
const LEAST_MS = 1000;

/** Opens a backend, unless the time is over before (`wait-timeout`) or the signal comes. */
function openWithin(timeoutMs: number | undefined, signal: AbortSignal): typeof openBackend {
  return async (url, options) => {
    const over = new AbortController();
    const timer = timeoutMs === undefined ? undefined : setTimeout(
      () => over.abort(timedOut(timeoutMs, null, null)),
      Math.min(Math.max(timeoutMs, LEAST_MS), 0x7fffffff),
    );
    const ending = AbortSignal.any([signal, over.signal]);
    const patience = performance.now() + PATIENCE_MS;
    const waiting = startWaiting();
    try {
      for (;;) {
        const opening = openBackend(url, { ...options, busyTimeoutMs: BUSY_MS });
        try {
          return await unlessEnded(opening, ending);
        } catch (error) {
          if (ending.aborted) void opening.then((backend) => backend.close()).catch(() => {});
          if (!isAgentqError(error, "backend-busy") || performance.now() >= patience) throw error;
          waiting.still(() => error.message);
          await systemClock.sleep(BUSY_MS / 4, ending);
        }
      }
    } finally {
      waiting.over();
      clearTimeout(timer);
    }
  };
}

async function unlessEnded<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  let abort = () => {};
  const ended = new Promise<never>((_, reject) => {
    abort = () => reject(abortReason(signal));
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
  });
  try {
    return await Promise.race([work, ended]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

export const recover: Run = (context, [name], flags) =>
  withBackend(context, flags, async (backend) => {
    const staleMs = milliseconds(flags, "stale");
    const { signal } = context;
    const recovered = await backend.recover(name!, {
      signal,
      ...(staleMs === undefined ? {} : { staleMs }),
    });
    if (recovered.length === 0) signal.throwIfAborted();
    context.print(
      {
        schema: "agentq.queue-recover/1",
        queue: name,
        recovered: recovered.length,
        messages: recovered.map(({ id, why, outcome }) => ({ id, why, outcome })),
      },
      () => String(recovered.length),
    );
    return 0;
  });
