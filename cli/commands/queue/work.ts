/** `queue work`: any program as the handler of a queue's messages. */
import { commandHandler } from "../../../src/queuefs/command-handler.ts";
import { openMetricsFile } from "../../../src/queuefs/metrics-files.ts";
import { quoted } from "../../../src/queuefs/names.ts";
import { type Handler, startWorker, type WorkerEvent } from "../../../src/queuefs/worker.ts";
import { AgentqError, isAgentqError } from "../../../src/errors.ts";
import type { Context } from "../../context.ts";
import { passOut, passReady, settlePassed } from "../../output/write.ts";
import { type Flags, STOPPED } from "../../spec.ts";
import { milliseconds, warn, withBackend } from "./common.ts";
import { countersOf } from "./counters.ts";

const TICK_MS = 1000;

export function work(context: Context, args: readonly string[], flags: Flags): Promise<number> {
  const [name, ...command] = args;
  return withBackend(context, flags, async (backend) => {
    if (command.length === 0) {
      throw new AgentqError("usage", "name the program to run: queue work NAME -- CMD…");
    }
    const queue = name!;
    const timeoutMs = milliseconds(flags, "job-timeout");
    const run = commandHandler(queue, command, {
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
      onOutput: (chunk, from) => {
        // Programs may cut characters anywhere: what is passed on to a file or pipe stays bytes.
        if (from === "stdout" && !context.json) return passOut(chunk);
        context.progress.stream(new TextDecoder().decode(chunk));
      },
    });
    // A program that has ended is done, whoever reads what it said; the next one waits for that.
    const handler: Handler = async (delivery, options) => {
      await passReady(AbortSignal.any([options.signal, context.signal]));
      await run(delivery, options);
    };
    // A queue that isn't there is an error, not an empty one. What may pass the worker waits for.
    await backend.status(queue).catch((error) => {
      if (!isAgentqError(error) || !error.retryable) throw error;
    });
    await warn(context, backend);
    const hints = new Set<string>();
    const worker = startWorker(backend, queue, handler, {
      concurrency: Number(flags.concurrency),
      maxAttempts: Number(flags["max-attempts"]),
      leaseMs: milliseconds(flags, "lease")!,
      backoff: { baseMs: milliseconds(flags, "backoff")!, maxMs: 60_000 },
      untilEmpty: flags["until-empty"] === true,
      onEvent: (event) => report(context, event, hints),
    });
    // Without a state directory what a worker counts goes with it.
    const counters = countersOf(context, backend, queue);
    const file = counters === null ? null : openMetricsFile(counters, worker.owner);
    const tick = setInterval(() => {
      file?.save(worker.metrics);
      const { processed, failed_count } = worker.metrics;
      context.progress.update(
        `${queue}: ${processed} done, ${failed_count} failed, ${worker.held()} at work`,
      );
    }, TICK_MS);
    const graceMs = milliseconds(flags, "grace");
    const stop = () => void worker.stop(graceMs).catch(() => {});
    context.signal.addEventListener("abort", stop);
    if (context.signal.aborted) stop();
    try {
      await worker.done;
    } finally {
      clearInterval(tick);
      file?.save(worker.metrics);
      context.signal.removeEventListener("abort", stop);
    }
    const unread = await settlePassed(context.signal);
    if (unread > 0) {
      context.progress.line(`${unread} bytes of the programs' output are lost: nobody read them`);
    }
    if (context.json) {
      context.print({ schema: "agentq.queue-work/1", queue, ...worker.metrics }, () => "");
    } else {
      const { processed, requeue_count, failed_count } = worker.metrics;
      context.progress.line(
        `${queue}: ${processed} done, ${requeue_count} tried again, ${failed_count} failed`,
      );
    }
    return context.signal.aborted ? STOPPED : 0;
  }, { long: true });
}

/**
 * What a person watching wants to know: what went wrong, and what was taken over. `hints`: those given so far, since
 * what is waited out may last for ever unless somebody does something about it.
 */
function report(context: Context, event: WorkerEvent, hints: Set<string>): void {
  const { progress, verbose } = context;
  const advise = (error: unknown) => {
    if (!isAgentqError(error) || hints.has(error.hint)) return;
    // It looks again by itself.
    if (["backend-outcome-unknown", "commit-uncertain"].includes(error.code)) return;
    hints.add(error.hint);
    progress.line(`hint: ${error.hint}`);
  };
  switch (event.type) {
    case "requeued":
      return progress.line(`${event.id}: ${event.reason}; again in ${event.afterMs} ms`);
    case "failed":
      return progress.line(`${event.id}: to the dead letters: ${event.reason}`);
    case "lost":
      return progress.line(`${event.id}: no longer ours: another has it, or it is gone`);
    case "recovered":
      return progress.line(`${event.recovered.id}: taken back (${event.recovered.why})`);
    case "away":
      progress.line(`${event.error.message}; trying again until that is over`);
      return advise(event.error);
    case "back":
      return progress.line(
        `the backend answers again, after ${(event.afterMs / 1000).toFixed(1)} s`,
      );
    case "unsettled":
      return progress.line(
        `${event.id}: ${
          isAgentqError(event.error, "queue-not-found")
            ? "gone with its queue"
            : "comes back when its lease runs out"
        }: ${said(event.error)}`,
      );
    case "error":
      progress.line(said(event.error));
      return advise(event.error);
    default:
      if (verbose) progress.line(`${event.id}: ${event.type}`);
  }
}

function said(error: unknown): string {
  return error instanceof Error ? error.message : quoted(String(error));
}
