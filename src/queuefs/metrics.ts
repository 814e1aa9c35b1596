/**
 * What workers have done so far: cumulative telemetry of the worker layer. It is no queue length, and
 * nothing decides by it; queue lengths come from the backend beside it.
 */
import type { QueueCounts } from "./contract.ts";

/** Counters that only grow. */
export interface WorkerMetrics {
  /** Handled and acknowledged. */
  processed: number;
  /** Put back to be tried again. */
  requeue_count: number;
  /** Handler failures, and calls to the backend that failed. */
  error_count: number;
  /** Moved to the dead letters after too many attempts. */
  failed_count: number;
  /** Deliveries of others that were taken back. */
  recovered_count: number;
  /** Own deliveries that turned out to be no longer current. */
  stale_count: number;
}

export function emptyMetrics(): WorkerMetrics {
  return {
    processed: 0,
    requeue_count: 0,
    error_count: 0,
    failed_count: 0,
    recovered_count: 0,
    stale_count: 0,
  };
}

export function addMetrics(a: WorkerMetrics, b: WorkerMetrics): WorkerMetrics {
  const sum = emptyMetrics();
  for (const name of Object.keys(sum) as (keyof WorkerMetrics)[]) sum[name] = a[name] + b[name];
  return sum;
}

export interface QueueMetrics {
  readonly queue: string;
  readonly counts: QueueCounts;
  readonly workers: WorkerMetrics;
}

const GAUGES = {
  pending: "Messages available for dequeue.",
  processing: "Messages dequeued but not yet acknowledged.",
  unacked: "Pending and processing messages of one snapshot.",
};
const COUNTERS: Record<keyof WorkerMetrics, [name: string, help: string]> = {
  processed: ["processed_total", "Messages that workers handled and acknowledged."],
  requeue_count: ["requeue_total", "Messages that workers put back to be tried again."],
  error_count: ["error_total", "Handler failures and failed backend calls of workers."],
  failed_count: ["failed_total", "Messages that workers moved to the dead letters."],
  recovered_count: ["recovered_total", "Deliveries that workers took back from others."],
  stale_count: ["stale_total", "Deliveries that workers lost before they settled them."],
};

/** The Prometheus text format, version 0.0.4. */
export function prometheusText(queues: readonly QueueMetrics[]): string {
  const lines: string[] = [];
  const family = (
    name: string,
    type: string,
    help: string,
    value: (queue: QueueMetrics) => number,
  ) => {
    lines.push(`# HELP agentq_queue_${name} ${help}`, `# TYPE agentq_queue_${name} ${type}`);
    for (const each of queues) {
      lines.push(`agentq_queue_${name}{queue="${label(each.queue)}"} ${value(each)}`);
    }
  };
  family("pending", "gauge", GAUGES.pending, ({ counts }) => counts.pending);
  family("processing", "gauge", GAUGES.processing, ({ counts }) => counts.processing);
  family(
    "unacked",
    "gauge",
    GAUGES.unacked,
    ({ counts }) => counts.pending + counts.processing,
  );
  for (const [key, [name, help]] of Object.entries(COUNTERS)) {
    family(name, "counter", help, ({ workers }) => workers[key as keyof WorkerMetrics]);
  }
  return `${lines.join("\n")}\n`;
}

/**
 * The name as the format writes it. What a terminal would act on is percent-encoded, and so is %: other
 * programs' queues may be called anything, and no two of them may look the same.
 */
function label(text: string): string {
  return text.toWellFormed()
    .replace(/[%\p{Cc}\p{Cf}\u2028\u2029]/gu, (char) => char === "\n" ? char : percent(char))
    .replace(/[\\"\n]/g, (char) => char === "\n" ? "\\n" : `\\${char}`);
}

function percent(char: string): string {
  return char === "%" ? "%25" : encodeURIComponent(char);
}
