/**
 * How tickets and results are told to people. What a terminal acts on is escaped where it is printed;
 * here a stranger's text is kept on its own line, so that it can't pass for a line of ours.
 */
import type { ResultDocument, ShowDocument, StatusDocument } from "../../src/landing/schemas.ts";
import { shownPath } from "../../src/git/path-quote.ts";
import { escapeLine } from "./escape.ts";

const short = (oid: string) => oid.slice(0, 12);
const indent = (lines: readonly string[]) => lines.map((line) => `  ${line}\n`).join("");

/** `path:first-last`. */
function shownRegion(region: string): string {
  const lines = /:\d+-\d+$/.exec(region)?.[0] ?? "";
  return shownPath(region.slice(0, region.length - lines.length)) + lines;
}

/** One result, with everything its submitter needs. */
export function describeResult(result: ResultDocument): string {
  const { ticket, candidate } = result;
  switch (result.outcome) {
    case "queued":
      return `ticket ${ticket}: ${short(candidate)} is ${result.reason}` +
        (result.report === "" ? "" : ` (${escapeLine(result.report)})`);
    case "landed":
      return `ticket ${ticket}: landed ${short(candidate)} as ${short(result.landed!)}` +
        (result.tip === null ? "" : ` on ${short(result.tip)}`);
    case "refused":
      return `ticket ${ticket}: refused ${short(candidate)}: ${escapeLine(result.reason)}\n` +
        indent(result.files.map(shownPath)) + indent(result.regions.map(shownRegion)) +
        (result.report === "" ? "" : indent(result.report.split("\n")));
  }
}

/** One line of `log`. */
export function describeLine(result: ResultDocument): string {
  const what = result.outcome === "landed"
    ? `landed ${short(result.landed!)}`
    : `refused: ${escapeLine(result.reason)}`;
  return `${result.ticket}\t${short(result.candidate)}\t${what}`;
}

/** @param at what commands in advice need to find the same queue; `now` in wall time, milliseconds */
export function describeStatus(status: StatusDocument, at = "", now = Date.now()): string {
  const lines = [
    `${status.url} ${status.branch}: ${
      status.complete ? "nothing queued" : `${status.unacked} queued, next is ticket ${status.next}`
    }`,
  ];
  if (status.snapshot.tip === null && !status.rewound) {
    lines.push(`the origin has no branch ${JSON.stringify(status.branch)} yet`);
  }
  if (status.paused) {
    const { by, reason } = status.paused;
    lines.push(escapeLine(`paused by ${by}${reason ? `: ${reason}` : ""}`));
  }
  if (status.refused) {
    const { ticket, count, why } = status.refused;
    lines.push(
      escapeLine(
        `ticket ${ticket} could not be published, ${
          count === 1 ? "once" : `${count} times`
        } so far, ` +
          `and what is behind it waits: ${why.replace(/\s+/g, " ")}`,
      ),
      `  agentq cancel ${ticket}${at} takes it out, should the origin never take it`,
    );
  }
  if (status.rewound) {
    lines.push(
      status.snapshot.tip === null
        ? "the branch is gone, and with it what the queue landed: nothing lands until it is restored (agentq doctor " +
          `says how), or pushed anew at any commit and that accepted: agentq resume --accept-tip OID${at}`
        : "the branch no longer contains what the queue landed: nothing lands until " +
          `agentq resume --accept-tip ${status.snapshot.tip}${at}, or the branch is restored (agentq doctor says how)`,
    );
  }
  if (status.lock?.holder) lines.push(...describeHolder(status.lock.holder, status.lock.at, now));
  for (const ticket of status.tickets) {
    const title = ticket.title ? ` ${ticket.title.replace(/\s+/g, " ")}` : "";
    const who = escapeLine(ticket.submitter + title);
    lines.push(`  ${ticket.ticket} ${ticket.state} ${short(ticket.candidate)} ${who}`);
  }
  if (status.tickets.length < status.unacked) {
    lines.push(`  … and ${status.unacked - status.tickets.length} more`);
  }
  if (status.submissions.length > 0) lines.push(describeSubmissions(status.submissions));
  return lines.join("\n");
}

/** A holder renews the lock every third of its `--lease-ttl`, 40 s unless it was told otherwise. */
const QUIET_MS = 60_000;

/** Clocks of other machines may be off: what they say is for people to weigh. */
function describeHolder(holder: string, at: number, now: number): string[] {
  const line = `landing: ${escapeLine(holder)}`;
  const quiet = now - at;
  if (!(quiet >= 1000)) return [line];
  const seconds = Math.floor(quiet / 1000);
  const said = `${line} (last heard of ${seconds} s ago, by its clock)`;
  return quiet < QUIET_MS
    ? [said]
    : [said, "  it may be gone: a submit, wait or land takes over after its own --lease-ttl"];
}

/** States that say more in other words. */
const SAID: Readonly<Record<string, string>> = {
  lost: "lost: the queue has no such ticket of ours any more; submit it again",
  recorded: "recorded: nobody is sending it now; submit it again, or agentq flush",
  unknown: "not known now: the origin can't be reached",
};

/** This machine's own, one a line below a heading. */
export function describeSubmissions(
  submissions: readonly { ticket: number | null; candidate: string; state: string }[],
): string {
  const lines = submissions.map(({ ticket, candidate, state }) =>
    `  ${ticket === null ? "no ticket yet" : `ticket ${ticket}`} ${short(candidate)} ${
      SAID[state] ?? state
    }`
  );
  return ["from this machine:", ...lines].join("\n");
}

export function describeTicket(shown: ShowDocument): string {
  const time = (ms: number | null) => {
    const date = new Date(ms ?? NaN);
    return Number.isNaN(date.getTime()) ? null : date.toISOString();
  };
  const fields: [string, string | null][] = [
    ["ticket", `${shown.ticket} (${shown.state})`],
    ["candidate", shown.candidate],
    ["title", shown.title],
    ["submitter", shown.submitter],
    ["submitted", time(shown.submittedAt)],
    ["verify", shown.verifyCmd],
    ["check", shown.check],
    ["dropped", shown.drops.length > 0 ? shown.drops.map(shownPath).join(", ") : null],
    ["lander", shown.result?.lander ?? null],
    ["started", time(shown.result?.startedAt ?? null)],
    ["ended", time(shown.result?.endedAt ?? null)],
    ["branch was at", shown.result?.tip ?? null],
  ];
  const head = fields.flatMap(([name, value]) =>
    value === null ? [] : [`${name}: ${value.replace(/\n/g, "\n  ")}`]
  );
  return head.join("\n") + (shown.result ? `\n${describeResult(shown.result)}` : "");
}
