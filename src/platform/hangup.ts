/** SIGHUP: a terminal that was closed ends a run as SIGTERM does, with what it holds given back. */
import { readFileSync } from "node:fs";

/**
 * Whether SIGHUP ends this process, rather than being ignored as nohup has it. False where that can't be told:
 * there it is left to the system.
 */
export function isHangupDeadly(): boolean {
  try {
    const ignored = /^SigIgn:\s*([0-9a-f]+)$/m.exec(readFileSync("/proc/self/status", "latin1"));
    // Signal 1 is the lowest bit.
    return ignored !== null && (parseInt(ignored[1]!.slice(-1), 16) & 1) === 0;
  } catch {
    return false;
  }
}
