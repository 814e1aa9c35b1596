/** Where `queue work` leaves what it counts for `queue metrics`. */
import type { QueueBackend } from "../../../src/queuefs/contract.ts";
import { metricsDirectory } from "../../../src/queuefs/metrics-files.ts";
import type { Context } from "../../context.ts";

/** Where workers of a queue leave their counters; null where there is no state directory. */
export function countersOf(
  context: Context,
  backend: QueueBackend,
  queue: string,
): string | null {
  let state: string;
  try {
    state = context.stateDirectory;
  } catch {
    return null;
  }
  return metricsDirectory(state, backend.identity(), queue);
}
