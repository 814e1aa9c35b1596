/**
 * Verification: the branch's pinned checks, then the ticket's own, each with `sh -c` in a worktree that
 * holds exactly the commit to be published.
 */
import { Buffer } from "node:buffer";
import type { ConfigValue } from "../git/config.ts";
import type { Oid } from "../git/types.ts";
import type { CommandResult } from "../platform/process.ts";
import { withoutRunSettings } from "../platform/run-settings.ts";
import type { TicketEntry } from "./chain.ts";
import { NO_TIP, reportTail, type VerifyRecord } from "./messages.ts";
import type { Pins } from "./pins.ts";
import { withoutSecrets } from "./published-secrets.ts";
import { REASONS } from "./result.ts";
import { assertSandboxWorks } from "./sandbox.ts";
import type { Refusal, Verified } from "./workshop.ts";

export interface Check {
  readonly command: string;
  readonly timeoutMs: number;
  /** Who demands it, for the report. */
  readonly by: "agentq.json" | "ticket";
}

/** The check that a ticket can ask for by name. */
const SEM = "sem check";
const DEFAULT_TIMEOUT_S = 1800;
/** setTimeout's own bound, in milliseconds: 24 days. */
const MAX_TIMEOUT_MS = 0x7fffffff;

/** What must pass for a ticket, in order. */
export function checksOf(ticket: TicketEntry, pins: Pins): Check[] {
  const { verify_cmd, verify_timeout, check } = ticket.message;
  const milliseconds = (seconds: number) =>
    Math.max(1, Math.min(MAX_TIMEOUT_MS, Math.round(seconds * 1000)));
  const own = milliseconds(verify_timeout ?? DEFAULT_TIMEOUT_S);
  const checks: Check[] = pins.verify.map((command) => ({
    command,
    timeoutMs: milliseconds(pins.verifyTimeout),
    by: "agentq.json",
  }));
  if (typeof verify_cmd === "string" && !pins.verify.includes(verify_cmd)) {
    checks.push({ command: verify_cmd, timeoutMs: own, by: "ticket" });
  }
  if (check === "sem") checks.push({ command: SEM, timeoutMs: own, by: "ticket" });
  return checks;
}

/** Where the checks run and what they are told. */
export interface Site {
  readonly path: string;
  /** The lander's clone. */
  readonly repository: string;
  /** Its configuration: what it holds of credentials isn't published. */
  readonly config: readonly ConfigValue[];
  readonly tip: Oid | null;
}

export interface RunOptions {
  readonly signal: AbortSignal;
  readonly onOutput?: (chunk: Uint8Array) => void;
  readonly run: (
    command: string,
    options: {
      cwd: string;
      env: Record<string, string | undefined>;
      timeoutMs: number;
      signal: AbortSignal;
      wrapper: readonly string[];
      onOutput?: (chunk: Uint8Array) => void;
    },
  ) => Promise<CommandResult>;
}

/**
 * Runs the checks in order until one fails. The report is the end of the output of all that ran, 200 lines, and of a
 * failure one line more that says what failed.
 * @throws `command-not-started`, `sandbox-failed`; the signal's reason once aborted
 */
export async function runChecks(
  ticket: TicketEntry,
  checks: readonly Check[],
  pins: Pins,
  site: Site,
  options: RunOptions,
): Promise<Verified | Refusal> {
  let ms = 0;
  let verify: VerifyRecord | null = null;
  let report = "";
  for (const check of checks) {
    const result = await options.run(check.command, {
      cwd: site.path,
      env: environment(ticket, site),
      timeoutMs: check.timeoutMs,
      signal: options.signal,
      wrapper: pins.sandbox,
      ...(options.onOutput && { onOutput: options.onOutput }),
    });
    ms += result.ms;
    verify = { cmd: check.command, exit: result.exit, ms };
    const output = Buffer.from(result.tail).toString("utf8");
    const said = withoutSecrets(output, process.env, site.config).replace(/\n+$/, "");
    report = reportTail([report, said].filter((text) => text !== "").join("\n"));
    if (!result.timedOut && result.exit === 0) continue;
    if (!result.timedOut) await assertSandboxWorks(pins.sandbox, site, options);
    return failed(check, result, verify, report);
  }
  return { verdict: "verified", report, verify };
}

function failed(
  check: Check,
  result: CommandResult,
  verify: VerifyRecord,
  output: string,
): Refusal {
  const which = check.by === "agentq.json" ? `a check pinned in agentq.json` : "the verify command";
  const how = result.timedOut
    ? `was killed after ${check.timeoutMs / 1000} s`
    : result.exit === null
    ? `was ended by ${result.killedBy}`
    : `exited ${result.exit}`;
  const said = `${which} ${how}: ${check.command}`;
  const report = output === "" ? reportTail(said) : reportTail(`${output}\n${said}`, Infinity);
  return {
    verdict: "refused",
    reason: result.timedOut ? REASONS.timeout : REASONS.verify,
    files: [],
    regions: [],
    report,
    verify,
  };
}

function environment(ticket: TicketEntry, site: Site): Record<string, string | undefined> {
  const { message } = ticket;
  const unset = Object.keys(process.env)
    .filter((name) => /^GIT_(?!SSH|ASKPASS)|^AGENTQ_(TOKEN|REMOTE|BACKEND)$/.test(name));
  return {
    // What points git at another repository than the one the checks stand in, and what opens the origin:
    // the checks are the candidate's.
    ...Object.fromEntries(unset.map((name) => [name, undefined])),
    ...withoutRunSettings(),
    AGENTQ_TICKET: String(message.ticket),
    AGENTQ_CANDIDATE: message.candidate,
    AGENTQ_TIP: site.tip ?? NO_TIP,
    AGENTQ_REPO: site.repository,
    WEAVE_QUEUE_TICKET: String(message.ticket),
    WEAVE_QUEUE_CANDIDATE: message.candidate,
  };
}
