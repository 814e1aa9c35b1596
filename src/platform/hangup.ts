/** SIGHUP: a terminal that was closed ends a run as SIGTERM does, with what it holds given back. */
import { readFileSync } from "node:fs";

/**
 * From here on SIGHUP counts as SIGTERM, unless it is ignored, as nohup has it. Only where that can be
 * told: elsewhere the system ends the process at once.
 */
export function endOnHangup(): void {
  if (!isHangupDeadly()) return;
  process.once("SIGHUP", () => process.kill(process.pid, "SIGTERM"));
}

function isHangupDeadly(): boolean {
  try {
    const ignored = /^SigIgn:\s*([0-9a-f]+)$/m.exec(readFileSync("/proc/self/status", "latin1"));
    // Signal 1 is the lowest bit.
    return ignored !== null && (parseInt(ignored[1]!.slice(-1), 16) & 1) === 0;
  } catch {
    return false;
  }
}
