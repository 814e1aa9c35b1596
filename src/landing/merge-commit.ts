/**
 * The merge commit of a landing, the same on every machine for the same tip and ticket:
 *
 * - parents: tip, candidate; tree: the merge's;
 * - author and committer: `agentq <agentq@localhost>` at the committer time of the ticket's commit in
 *   the queue chain, zone +0000 (a ticket of another client has no other date that all agree on);
 * - subject: the ticket's title, else the candidate's subject, on one line; else `Land ticket N`;
 * - then a blank line and trailers: the ticket, the candidate, and what the ticket declared dropped.
 */
import { commitMessage, parseCommit, serializeCommit } from "../git/commit.ts";
import { hashObject } from "../git/oid.ts";
import type { ObjectReader, Oid } from "../git/types.ts";
import type { TicketEntry } from "./chain.ts";
import type { NewCommit } from "./chain-commit.ts";

const MAX_SUBJECT = 500;

/** Makes the merge commit. Reads the candidate from `objects`. */
export function landingCommit(
  objects: ObjectReader,
  ticket: TicketEntry,
  tip: Oid,
  tree: Oid,
): NewCommit {
  const { candidate, agentq } = ticket.message;
  const identity = `agentq <agentq@localhost> ${ticket.seconds} +0000`;
  const trailers = [
    `Agentq-Ticket: ${ticket.message.ticket}`,
    `Agentq-Candidate: ${candidate}`,
    ...(agentq?.drops ?? []).map((path) => `Agentq-Drop: ${oneLine(path)}`),
  ];
  const content = serializeCommit({
    tree,
    parents: [tip, candidate],
    author: identity,
    committer: identity,
    message: `${subjectOf(objects, ticket)}\n\n${trailers.join("\n")}\n`,
  });
  return { oid: hashObject("commit", content), content };
}

function subjectOf(objects: ObjectReader, ticket: TicketEntry): string {
  const title = oneLine(ticket.message.agentq?.title ?? "");
  if (title !== "") return title;
  const { candidate } = ticket.message;
  const message = commitMessage(parseCommit(objects.read(candidate).data, candidate));
  const subject = oneLine(message.trimStart().split("\n", 1)[0] ?? "");
  return subject === "" ? `Land ticket ${ticket.message.ticket}` : subject;
}

/** Control characters, newlines among them, become spaces; at most {@link MAX_SUBJECT} characters. */
function oneLine(text: string): string {
  const plain = text.replace(/[\x00-\x1f\x7f-\x9f\u2028\u2029]+/g, " ").trim();
  const points = [...plain];
  return points.length > MAX_SUBJECT ? points.slice(0, MAX_SUBJECT - 1).join("") + "…" : plain;
}
