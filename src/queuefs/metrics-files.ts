/**
 * Where worker processes leave their counters for `queue metrics`: one small file for each worker,
 * replaced whole. A new worker goes on counting in the file of one that is proven gone (taken over by
 * a rename, which only one can win), so there are never more files than there were workers at once.
 */
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import * as z from "zod/mini";
import { readPlainFile } from "../platform/plain-file.ts";
import { assertUsableUmask } from "../platform/umask.ts";
import { addMetrics, emptyMetrics, type WorkerMetrics } from "./metrics.ts";
import { parseOwner } from "./owner.ts";

/** Six numbers take far less. */
const MAX_BYTES = 64 * 1024;

const counter = z.int().check(z.gte(0));
const fileSchema = z.object({
  processed: counter,
  requeue_count: counter,
  error_count: counter,
  failed_count: counter,
  recovered_count: counter,
  stale_count: counter,
});

/** The directory for one queue of the backend with that identity, below agentq's state directory. */
export function metricsDirectory(
  stateDirectory: string,
  identity: string,
  queue: string,
): string {
  const name = createHash("sha256").update(`${identity}\n${queue}`).digest("hex").slice(0, 32);
  return join(stateDirectory, "queue-metrics", name);
}

export interface MetricsFile {
  /** Writes what is counted so far. Telemetry: not synced, and a failure is not an error. */
  save(metrics: WorkerMetrics): void;
}

/** Opens this worker's file; what it saves is added to what the file held when it was taken over. */
export function openMetricsFile(directory: string, owner: string): MetricsFile {
  const path = join(directory, `${owner}.json`);
  let base = emptyMetrics();
  /** What of this worker's stands in the file; null: none is there yet. */
  let saved: WorkerMetrics | null = null;
  try {
    assertUsableUmask(directory); // It would make a state directory that nobody can look into.
    mkdirSync(directory, { recursive: true });
    for (const name of readdirSync(directory)) {
      const other = parseOwner(name.replace(/\.json$/, ""));
      if (!name.endsWith(".json") || other.kind !== "worker" || other.liveness() !== "gone") {
        continue;
      }
      try {
        renameSync(join(directory, name), path);
      } catch {
        continue; // Another new worker was faster.
      }
      base = readMetrics(path) ?? base;
      saved = emptyMetrics();
      break;
    }
  } catch {
    // Counting goes on in memory.
  }
  return {
    save(metrics) {
      try {
        assertUsableUmask(directory);
        // Removed with its queue: one of that name begins at nothing.
        if (saved !== null && !existsSync(path)) base = negative(saved);
        mkdirSync(directory, { recursive: true });
        const temporary = `${path}.tmp`;
        try {
          unlinkSync(temporary);
        } catch {
          // Nothing is left of an earlier one.
        }
        // A file of its own, whatever else lies there by now.
        writeFileSync(temporary, JSON.stringify(addMetrics(base, metrics)), { flag: "wx" });
        renameSync(temporary, path);
        saved = { ...metrics };
      } catch {
        // The next save may work.
      }
    },
  };
}

/** Forgets what was counted of a queue that was removed. Telemetry: a failure is not an error. */
export function removeMetrics(directory: string): void {
  try {
    rmSync(directory, { recursive: true, force: true });
  } catch {
    // It is told of a queue of that name, should there be one again.
  }
}

function negative(metrics: WorkerMetrics): WorkerMetrics {
  const result = emptyMetrics();
  for (const name of Object.keys(result) as (keyof WorkerMetrics)[]) result[name] = -metrics[name];
  return result;
}

/** The sum over all workers that ever left their counters there. */
export function readAllMetrics(directory: string): WorkerMetrics {
  let names: string[];
  try {
    names = readdirSync(directory).filter((name) => name.endsWith(".json"));
  } catch {
    names = [];
  }
  return names.map((name) => readMetrics(join(directory, name)) ?? emptyMetrics()).reduce(
    addMetrics,
    emptyMetrics(),
  );
}

function readMetrics(path: string): WorkerMetrics | null {
  try {
    const bytes = readPlainFile(path, { limit: MAX_BYTES });
    if (bytes === null) return null;
    const parsed = fileSchema.safeParse(JSON.parse(new TextDecoder().decode(bytes)));
    return parsed.success ? parsed.data : null;
  } catch {
    return null;
  }
}
