/** The umask: which permissions this process withholds from everything that it makes. */
import { readFileSync } from "node:fs";
import { AgentqError } from "../errors.ts";

let known = false;

/**
 * Before something is made in `path`: throws `mode-unsupported` where the umask withholds rights of the
 * owner's own, since nothing that is made then could be used by anybody. Asked once in a process.
 */
export function assertUsableUmask(path: string): void {
  if (known) return;
  const umask = currentUmask();
  if (umask !== null && (umask & 0o700) !== 0) {
    const shown = umask.toString(8).padStart(4, "0");
    throw new AgentqError(
      "mode-unsupported",
      `nothing was changed in ${path}: the umask ${shown} withholds rights of the owner's own, ` +
        "so that nobody could use what is made there",
      {
        hint: "Set one that leaves them, as umask 077 does, then run the command again.",
        details: { path, umask: shown },
      },
    );
  }
  known = true;
}

/** Null where it can't be told. */
function currentUmask(): number | null {
  if (process.platform === "win32") return null;
  try {
    // Asking by umask(2) sets another one for a moment, which other threads' files would get.
    const status = readFileSync("/proc/self/status", "latin1");
    const found = /^Umask:\s*([0-7]+)$/m.exec(status);
    if (found !== null) return parseInt(found[1]!, 8);
  } catch {
    // No such file system: another Unix.
  }
  try {
    return process.umask();
  } catch {
    return null;
  }
}
