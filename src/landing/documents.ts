/** From chain entries to the documents that `--json` prints. Types only: schemas.ts is not loaded. */
import type { Oid } from "../git/types.ts";
import { numberOf, type ResultEntry, type TicketEntry } from "./chain.ts";
import type { Control } from "./control.ts";
import { holderOf } from "./held-lock.ts";
import { REASONS, tipOfResult } from "./result.ts";
import type { ResultDocument, ShowDocument } from "./schemas.ts";
import type { Snapshot } from "./snapshot.ts";

/** The result of a ticket. */
export function documentOfResult({ message }: ResultEntry): ResultDocument {
  const landed = message.landed ?? null;
  return {
    schema: "agentq.result/1",
    ticket: message.ticket,
    outcome: landed === null ? "refused" : "landed",
    reason: message.reason,
    candidate: message.candidate,
    landed,
    tip: tipOfResult(message),
    files: message.files ?? [],
    regions: message.regions ?? [],
    report: message.report ?? "",
    lander: message.lander,
    drops: message.agentq?.drops ?? [],
  };
}

/** A submission that has no result yet; `report` says what it waits for, where that is known. */
export function documentOfQueued(
  { candidate, drops }: { readonly candidate: Oid; readonly drops: readonly string[] },
  ticket: number | null,
  reason: string,
  report = "",
): ResultDocument {
  return {
    schema: "agentq.result/1",
    ticket,
    outcome: "queued",
    reason,
    candidate,
    landed: null,
    tip: null,
    files: [],
    regions: [],
    report,
    lander: null,
    drops: [...drops],
  };
}

/** A ticket that is cancelled and has no result yet: what its result will say. */
export function documentOfCancelled(
  what: { readonly candidate: Oid; readonly drops: readonly string[] },
  ticket: number,
): ResultDocument {
  return {
    ...documentOfQueued(what, ticket, REASONS.cancelled, "Cancelled; it is recorded in its turn."),
    outcome: "refused",
  };
}

/** What a ticket that has no result is waiting as. */
export function stateOfTicket(
  ticket: number,
  snapshot: Snapshot,
  control: Control,
): "pending" | "processing" | "cancelled" {
  if (control.cancelled.includes(ticket)) return "cancelled";
  return ticket === snapshot.next && holderOf(snapshot.lock) !== null ? "processing" : "pending";
}

/** One ticket whole. */
export function documentOfTicket(
  ticket: TicketEntry,
  result: ResultEntry | null,
  snapshot: Snapshot,
  control: Control,
): ShowDocument {
  const { message } = ticket;
  const ours = message.agentq;
  return {
    schema: "agentq.show/1",
    ticket: numberOf(ticket),
    state: result
      ? result.message.landed ? "landed" : "refused"
      : stateOfTicket(numberOf(ticket), snapshot, control),
    candidate: message.candidate,
    submitter: message.submitter,
    submission: ours?.submission ?? null,
    submittedAt: ours?.submittedAt ?? null,
    title: ours?.title ?? null,
    verifyCmd: message.verify_cmd ?? null,
    verifyTimeout: message.verify_timeout ?? null,
    check: message.check ?? null,
    drops: ours?.drops ?? [],
    commit: ticket.oid,
    result: result && {
      ...documentOfResult(result),
      commit: result.oid,
      startedAt: result.message.agentq?.startedAt ?? null,
      endedAt: result.message.agentq?.endedAt ?? null,
      tree: result.message.agentq?.tree ?? null,
      verify: verifyOf(result),
    },
  };
}

function verifyOf(result: ResultEntry): { cmd: string; exit: number | null; ms: number } | null {
  const verify = result.message.agentq?.verify;
  return verify ? { cmd: verify.cmd, exit: verify.exit, ms: verify.ms } : null;
}
