/** How tickets and results are told to people. Escaping is done where it is printed. */
import type { ResultDocument, ShowDocument, StatusDocument } from "../../src/landing/schemas.ts";

const short = (oid: string) => oid.slice(0, 12);
const indent = (lines: readonly string[]) => lines.map((line) => `  ${line}\n`).join("");

/** One result, with everything its submitter needs. */
export function describeResult(result: ResultDocument): string {
  const { ticket, candidate } = result;
  switch (result.outcome) {
    case "queued":
      return `ticket ${ticket}: ${short(candidate)} is ${result.reason}`;
    case "landed":
      return `ticket ${ticket}: landed ${short(candidate)} as ${short(result.landed!)}` +
        (result.tip === null ? "" : ` on ${short(result.tip)}`);
    case "refused":
      return `ticket ${ticket}: refused ${short(candidate)}: ${result.reason}\n` +
        indent(result.files) + indent(result.regions) +
        (result.report === "" ? "" : indent(result.report.split("\n")));
  }
}

/** One line of `log`. */
export function describeLine(result: ResultDocument): string {
  const what = result.outcome === "landed"
    ? `landed ${short(result.landed!)}`
    : `refused: ${result.reason}`;
  return `${result.ticket}\t${short(result.candidate)}\t${what}`;
}

export function describeStatus(status: StatusDocument): string {
  const lines = [
    `${status.url} ${status.branch}: ${
      status.complete ? "nothing queued" : `${status.unacked} queued, next is ticket ${status.next}`
    }`,
  ];
  if (status.paused) {
    const { by, reason } = status.paused;
    lines.push(`paused by ${by}${reason ? `: ${reason}` : ""}`);
  }
  if (status.rewound) {
    lines.push(
      "the branch no longer contains what the queue landed: nothing lands until " +
        "agentq resume --accept-tip OID, or the branch is restored",
    );
  }
  if (status.lock?.holder) lines.push(`landing: ${status.lock.holder}`);
  for (const ticket of status.tickets) {
    const title = ticket.title ? ` ${ticket.title.replace(/\s+/g, " ")}` : "";
    lines.push(
      `  ${ticket.ticket} ${ticket.state} ${short(ticket.candidate)} ${ticket.submitter}${title}`,
    );
  }
  if (status.tickets.length < status.unacked) {
    lines.push(`  … and ${status.unacked - status.tickets.length} more`);
  }
  if (status.submissions.length > 0) lines.push("from this machine:");
  for (const { ticket, state, candidate } of status.submissions) {
    lines.push(
      `  ${ticket === null ? "no ticket yet" : `ticket ${ticket}`} ${short(candidate)} ${state}`,
    );
  }
  return lines.join("\n");
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
    ["dropped", shown.drops.length > 0 ? shown.drops.join(", ") : null],
    ["lander", shown.result?.lander ?? null],
    ["started", time(shown.result?.startedAt ?? null)],
    ["ended", time(shown.result?.endedAt ?? null)],
    ["merged onto", shown.result?.tip ?? null],
  ];
  const head = fields.flatMap(([name, value]) =>
    value === null ? [] : [`${name}: ${value.replace(/\n/g, "\n  ")}`]
  );
  return head.join("\n") + (shown.result ? `\n${describeResult(shown.result)}` : "");
}
