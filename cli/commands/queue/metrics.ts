/** `queue metrics`: gauges from one backend snapshot, counters from the workers' files. */
import { readAllMetrics } from "../../../src/queuefs/metrics-files.ts";
import { emptyMetrics, prometheusText, type QueueMetrics } from "../../../src/queuefs/metrics.ts";
import type { Context } from "../../context.ts";
import { writeOut } from "../../output/write.ts";
import type { Flags } from "../../spec.ts";
import { printLines, warn, withBackend } from "./common.ts";
import { countersOf } from "./counters.ts";

const countedIn = (directory: string | null) =>
  directory === null ? emptyMetrics() : readAllMetrics(directory);

export function metrics(
  context: Context,
  [name]: readonly string[],
  flags: Flags,
): Promise<number> {
  return withBackend(context, flags, async (backend) => {
    await warn(context, backend);
    const counts = await backend.statuses(name === undefined ? undefined : [name]);
    const queues: QueueMetrics[] = [...counts].map(([queue, each]) => ({
      queue,
      counts: each,
      workers: countedIn(countersOf(context, backend, queue)),
    }));
    if (flags.prometheus === true) {
      writeOut(prometheusText(queues));
      return 0;
    }
    printLines(
      context,
      queues.map(({ queue, counts: { pending, processing }, workers }) => ({
        schema: "agentq.queue-metrics/1",
        queue,
        pending,
        processing,
        unacked: pending + processing,
        ...workers,
      })),
    );
    return 0;
  });
}
