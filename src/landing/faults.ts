/** Whose fault it is when a ticket's checks could not be run: that decides whether it is refused. */
import { AgentqError, type ErrorCode } from "../errors.ts";

/**
 * - `ticket`: what it brings can't be checked anywhere (unsafe paths): refused at once;
 * - `machine`: this machine can't work (disk full, no permission): says nothing about the ticket;
 * - `origin`: the origin can't be reached or read, or its chains or pins are broken;
 * - `unclear`: could be either (a sandbox that doesn't work here, a fault of agentq): counted.
 */
export type Fault = "ticket" | "machine" | "origin" | "unclear";

const BY_CODE: Partial<Record<ErrorCode, Fault>> = {
  "unsafe-path": "ticket",
  "io-error": "machine",
  "durability-unavailable": "machine",
  "index-locked": "machine",
  "worktree-busy": "machine",
  "worktree-foreign": "machine",
  "repository-unsupported": "machine",
  "config-invalid": "machine",
  "corrupt-chain": "origin",
  "chain-unsupported": "origin",
  "pins-invalid": "origin",
  "branch-rewound": "origin",
  "origin-stuck": "origin",
  "push-refused": "origin",
};

/** System errors that follow from what is being written, not from the state of the machine. */
const ERRNO_OF_TICKET = new Set(["ENAMETOOLONG", "ELOOP", "EILSEQ", "EINVAL"]);

/** What starting any program fails with where the machine is short of something. */
const ERRNO_OF_SHORTAGE = new Set(["EAGAIN", "ENOMEM", "EMFILE", "ENFILE"]);

export function faultOf(error: unknown): Fault {
  const errno = errnoOf(error);
  if (error instanceof AgentqError && error.code === "command-not-started") {
    return isMachinesOwn(error, errno) ? "machine" : "unclear";
  }
  if (errno !== null && ERRNO_OF_TICKET.has(errno)) return "unclear";
  if (error instanceof AgentqError) {
    const known = BY_CODE[error.code];
    if (known) return known;
    if (error.retryable) return "origin";
    return "unclear";
  }
  return errno === null ? "unclear" : "machine";
}

/**
 * No program starts for want of memory or processes, and no check at all without `sh`. A command line
 * too long for the system (E2BIG) is the ticket's; a sandbox that is missing never comes here.
 */
function isMachinesOwn(error: AgentqError, errno: string | null): boolean {
  if (errno === null || errno === "E2BIG") return false;
  return ERRNO_OF_SHORTAGE.has(errno) || error.details?.program === "sh";
}

function errnoOf(error: unknown): string | null {
  for (let at = error; at instanceof Error; at = at.cause) {
    const { code } = at as { code?: unknown };
    if (typeof code === "string" && /^E[A-Z0-9]+$/.test(code)) return code;
    const details = (at as { details?: { errno?: unknown } }).details;
    if (typeof details?.errno === "string") return details.errno;
  }
  return null;
}
