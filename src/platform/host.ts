/**
 * Who this process is, in words that another process can check later: is the owner of that lock file
 * still running?
 *
 * A pid alone says nothing: pids are reused, containers have their own, other machines too. An
 * identity is a pid within a pid namespace within one boot of one kernel, plus the process's start
 * time in that kernel's own ticks (never wall-clock time, which jumps). `isProcessAlive` answers
 * `gone` only when it has proved it; everything it can't prove is `unknown`.
 *
 *   same boot? ──no──▶ unknown        pid exists? ──no──▶ gone
 *      │yes                              │yes
 *   same pid namespace? ──no──▶ unknown  start time: equal ▶ alive · differs ▶ gone (pid reused)
 *                                                  · unreadable ▶ unknown
 */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import { nodeChildProcess } from "./builtins.ts";

/** One process, identified well enough to be proven gone. Plain JSON. */
export interface ProcessIdentity {
  readonly pid: number;
  /** The kernel's own start time of the process (Linux: clock ticks since boot); null: not known. */
  readonly startTime: string | null;
  /** The pid namespace that `pid` belongs to; null: not known. */
  readonly pidNamespace: string | null;
  /** A value that changes with every boot of the kernel; null: not known. */
  readonly bootId: string | null;
  /** For people to read; never compared. */
  readonly host: string;
}

/** What can be said about another process. Only `gone` is a proof of its end. */
export type Liveness = "alive" | "gone" | "unknown";

/** The kernel facts that identities rest on; tests put their own in place. */
export interface HostProbe {
  bootId(): string | null;
  pidNamespace(): string | null;
  /** `zombie`: ended, waiting to be reaped; it will never run again. */
  startTime(pid: number): { ticks: string; zombie: boolean } | null;
  /** Asks the kernel, not /proc, which may hide other users' processes. */
  exists(pid: number): boolean | null;
}

let cachedIdentity: ProcessIdentity | undefined;

/** This process's identity. Computed once, without spawning anything on Linux and Android. */
export function processIdentity(): ProcessIdentity {
  if (cachedIdentity && cachedIdentity.pid === process.pid) return cachedIdentity;
  const probe = hostProbe();
  cachedIdentity = {
    pid: process.pid,
    startTime: probe.startTime(process.pid)?.ticks ?? null,
    pidNamespace: probe.pidNamespace(),
    bootId: probe.bootId(),
    host: hostname(),
  };
  return cachedIdentity;
}

/**
 * Whether the process that `identity` names still runs.
 *
 * `gone` is proved: same boot, same pid namespace, and either no process has that pid, or the one
 * that has it started at another time, or it has ended and merely waits to be reaped. Another boot id
 * may be a reboot or another machine on a shared disk, so it is `unknown`.
 */
export function isProcessAlive(
  identity: ProcessIdentity,
  probe: HostProbe = hostProbe(),
): Liveness {
  if (!Number.isSafeInteger(identity.pid) || identity.pid <= 0) return "unknown";
  const bootId = probe.bootId();
  const pidNamespace = probe.pidNamespace();
  if (bootId === null || pidNamespace === null) return "unknown";
  if (identity.bootId !== bootId || identity.pidNamespace !== pidNamespace) return "unknown";

  const exists = probe.exists(identity.pid);
  if (exists === null) return "unknown";
  if (!exists) return "gone";
  const now = probe.startTime(identity.pid);
  if (now === null) {
    // It may have ended between the two questions.
    return probe.exists(identity.pid) === false ? "gone" : "unknown";
  }
  if (identity.startTime === null) return "unknown";
  if (now.ticks !== identity.startTime) return "gone";
  return now.zombie ? "gone" : "alive";
}

/** The probe for the system this runs on. */
export function hostProbe(): HostProbe {
  switch (process.platform) {
    case "linux":
    case "android":
      return procProbe;
    case "darwin":
      return darwinProbe;
    default:
      return blindProbe;
  }
}

/** Signal 0 asks for existence and permission only. */
function exists(pid: number): boolean | null {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === "ESRCH") return false;
    return code === "EPERM" ? true : null;
  }
}

const procProbe: HostProbe = {
  bootId: once(() => readOrNull("/proc/sys/kernel/random/boot_id")),
  pidNamespace: once(() => {
    try {
      return procIsOurs() ? readlinkSync("/proc/self/ns/pid") : null;
    } catch {
      return null;
    }
  }),
  startTime(pid) {
    if (!procIsOurs()) return null;
    // By the way of the task: user-mode emulators (qemu) make up a process's own /proc/PID/stat, with
    // another start time than everyone else sees, and a live owner would look like a reused pid.
    const stat = readOrNull(`/proc/${pid}/task/${pid}/stat`);
    if (stat === null) return null;
    // The command name (field 2) is in parentheses and may itself hold spaces and parentheses.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const [state, ticks] = [fields[0], fields[19]];
    if (ticks === undefined || !/^\d+$/.test(ticks)) return null;
    const ended = state === "Z" || state === "X";
    return { ticks, zombie: ended && !hasOtherThreads(pid) };
  },
  exists,
};

/** A leader that has ended shows as a zombie while its other threads may still be writing. */
function hasOtherThreads(pid: number): boolean {
  try {
    return readdirSync(`/proc/${pid}/task`).length > 1;
  } catch {
    return false;
  }
}

/**
 * False where /proc shows another pid namespace (its numbers are not ours), or where a time namespace
 * shifts the start times that are shown, so that two processes could read two values for one process.
 */
const procIsOurs = once(() => {
  try {
    if (readlinkSync("/proc/self") !== String(process.pid)) return false;
  } catch {
    return false;
  }
  const offsets = readOrNull("/proc/self/timens_offsets");
  return offsets === null || /^boottime\s+0\s+0$/m.test(offsets);
});

const darwinProbe: HostProbe = {
  bootId: once(() => run("/usr/sbin/sysctl", "-n", "kern.bootsessionuuid")),
  pidNamespace: () => "darwin",
  startTime(pid) {
    const line = run("/bin/ps", "-o", "stat=,lstart=", "-p", String(pid));
    const match = line === null ? null : /^(\S+)\s+(.+)$/.exec(line);
    if (match === null) return null;
    return { ticks: match[2]!.replace(/\s+/g, " "), zombie: match[1]!.startsWith("Z") };
  },
  exists,
};

/** Nothing can be proved: locks are left to an operator. */
const blindProbe: HostProbe = {
  bootId: () => null,
  pidNamespace: () => null,
  startTime: () => null,
  exists,
};

function readOrNull(path: string): string | null {
  try {
    return readFileSync(path, "utf8").trim() || null;
  } catch {
    return null;
  }
}

function run(program: string, ...args: string[]): string | null {
  try {
    const env = { LC_ALL: "C", TZ: "UTC" };
    return nodeChildProcess().execFileSync(program, args, { env, encoding: "utf8", timeout: 5000 })
      .trim() || null;
  } catch {
    return null;
  }
}

function once<T>(compute: () => T): () => T {
  let result: { value: T } | undefined;
  return () => (result ??= { value: compute() }).value;
}
