/**
 * In whose name a message is dequeued.
 *
 * There are two kinds, since they end differently. A *worker* is a process that renews its leases while
 * it lives; its name carries the process's identity, so that anyone on the same machine can prove it
 * gone without a registry of workers. A *caller* is a name on whose behalf short commands run: one
 * process dequeues, another acks, and neither being gone says anything; only the lease's time does.
 *
 * ```
 * w~PID~START~PIDNS~BOOT~RANDOM        worker   (fields are percent-encoded; empty: not known)
 * c~NAME~BOOT                          caller
 * ```
 *
 * Any other text is the owner of another program (an OpenViking instance id).
 */
import { randomBytes } from "node:crypto";
import { AgentqError } from "../errors.ts";
import { isProcessAlive, type Liveness, processIdentity } from "../platform/host.ts";

export type ParsedOwner =
  | { readonly kind: "worker"; readonly bootId: string | null; readonly liveness: () => Liveness }
  | { readonly kind: "caller"; readonly bootId: string | null }
  | { readonly kind: "foreign" };

const NAME = /^[A-Za-z0-9._-]{1,64}$/;

/** A new owner for a worker in this process. Each call makes another one. */
export function workerOwner(): string {
  const self = processIdentity();
  const fields = [String(self.pid), self.startTime, self.pidNamespace, self.bootId];
  const random = randomBytes(8).toString("hex");
  return ["w", ...fields.map((field) => encodeURIComponent(field ?? "")), random].join("~");
}

/** The owner for commands that act for `name`: `[A-Za-z0-9._-]`, at most 64. Throws `usage`. */
export function callerOwner(name = "cli"): string {
  if (!NAME.test(name)) {
    throw new AgentqError("usage", "an owner is 1 to 64 characters of A-Z a-z 0-9 . _ -");
  }
  return `c~${name}~${encodeURIComponent(processIdentity().bootId ?? "")}`;
}

/** What all owners for that caller begin with, whatever the boot they were made in. */
export function callerPrefix(owner: string): string {
  return owner.startsWith("c~") ? owner.slice(0, owner.lastIndexOf("~") + 1) : owner;
}

/** Whether a message held by `holder` may be settled in the name of `owner`. */
export function ownsLease(holder: string, owner: string): boolean {
  return owner.startsWith("c~") ? holder.startsWith(callerPrefix(owner)) : holder === owner;
}

/** Reads an owner that anyone may have written. */
export function parseOwner(owner: string): ParsedOwner {
  const fields = owner.split("~").map(decodeField);
  if (fields[0] === "c" && fields.length === 3) {
    return { kind: "caller", bootId: fields[2] || null };
  }
  if (fields[0] !== "w" || fields.length !== 6) return { kind: "foreign" };
  const [, pid, startTime, pidNamespace, bootId] = fields as [
    string,
    string,
    string,
    string,
    string,
  ];
  const identity = {
    pid: Number(pid),
    startTime: startTime || null,
    pidNamespace: pidNamespace || null,
    bootId: bootId || null,
    host: "",
  };
  return { kind: "worker", bootId: identity.bootId, liveness: () => isProcessAlive(identity) };
}

function decodeField(field: string): string {
  try {
    return decodeURIComponent(field);
  } catch {
    return "";
  }
}
