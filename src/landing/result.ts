/** What became of a ticket, as the message that `done` keeps. */
import { AgentqError } from "../errors.ts";
import type { Oid } from "../git/types.ts";
import type { TicketEntry } from "./chain.ts";
import type { Lists } from "./lists.ts";
import { boundedList, NO_TIP, reportTail, type Result } from "./messages.ts";
import type { ReadyMerge, Refusal, Verified } from "./workshop.ts";

/** The reasons a result can have; other clients may write others. */
export const REASONS = {
  landed: "landed",
  nothing: "nothing to land",
  merge: "merge refused",
  branchMerge: "a merge on the branch was refused",
  verify: "verify command failed",
  timeout: "verify timed out",
  sem: "sem not installed",
  command: "ticket command not allowed",
  cancelled: "cancelled",
  failed: "land failed",
} as const;

export type Verdict =
  | { readonly kind: "landed"; readonly merge: ReadyMerge; readonly verified: Verified }
  | {
    readonly kind: "refused";
    readonly refusal: Refusal;
    readonly tree?: Oid;
    readonly base?: Oid | null;
  }
  | { readonly kind: "cancelled" }
  /** On the branch already, by a publication that was interrupted. */
  | {
    readonly kind: "recovered";
    readonly tip: Oid;
    readonly landed: Oid;
    readonly by: (Verdict & { kind: "landed" }) | null;
  }
  /** The checks could not be run. */
  | { readonly kind: "failed"; readonly error: unknown };

export interface ResultFacts {
  readonly ticket: TicketEntry;
  readonly verdict: Verdict;
  readonly lander: string;
  readonly tip: Oid;
  readonly startedAt: number;
  readonly endedAt: number;
  readonly lastLanded: Oid | null;
  readonly lists: Lists;
}

/** The result message of a ticket. */
export function resultMessage(facts: ResultFacts): Result {
  const { ticket, verdict } = facts;
  const told = outcomeOf(verdict);
  const drops = ticket.message.agentq?.drops ?? [];
  return {
    kind: "result",
    ticket: ticket.message.ticket,
    candidate: ticket.message.candidate,
    submitter: ticket.message.submitter,
    lander: facts.lander,
    tip: facts.tip,
    landed: told.landed,
    reason: told.reason,
    files: boundedList(told.files),
    regions: boundedList(told.regions),
    report: reportTail(told.report),
    agentq: {
      v: 1,
      startedAt: facts.startedAt,
      endedAt: facts.endedAt,
      tree: told.tree,
      mergedFrom: told.base,
      verify: told.verify,
      ...(drops.length > 0 && { drops: boundedList(drops) }),
      lastLanded: facts.lastLanded,
      ...facts.lists,
    },
  };
}

interface Told {
  landed: Oid | null;
  reason: string;
  files: readonly string[];
  regions: readonly string[];
  report: string;
  tree: Oid | null;
  base: Oid | null;
  verify: Verified["verify"];
}

const NOTHING: Omit<Told, "reason"> = {
  landed: null,
  files: [],
  regions: [],
  report: "",
  tree: null,
  base: null,
  verify: null,
};

function outcomeOf(verdict: Verdict): Told {
  switch (verdict.kind) {
    case "landed": {
      const { merge, verified } = verdict;
      return {
        ...NOTHING,
        landed: merge.commit,
        reason: REASONS.landed,
        report: verified.report,
        tree: merge.tree,
        base: merge.base,
        verify: verified.verify,
      };
    }
    case "recovered": {
      const note = "Published by a push that was interrupted; recorded afterwards.";
      const told = verdict.by ? outcomeOf(verdict.by) : { ...NOTHING, reason: REASONS.landed };
      const report = told.report === "" ? note : `${told.report}\n${note}`;
      return { ...told, landed: verdict.landed, report };
    }
    case "refused": {
      const { refusal } = verdict;
      return {
        ...NOTHING,
        reason: refusal.reason,
        files: refusal.files,
        regions: refusal.regions,
        report: refusal.report,
        tree: verdict.tree ?? null,
        base: verdict.base ?? null,
        verify: refusal.verify ?? null,
      };
    }
    case "cancelled":
      return { ...NOTHING, reason: REASONS.cancelled, report: "Cancelled before it was landed." };
    case "failed":
      return { ...NOTHING, reason: REASONS.failed, report: failureReport(verdict.error) };
  }
}

const COULD_NOT_RUN = "The checks could not be run";
const WHAT_FAILED: Partial<Record<AgentqError["code"], string>> = {
  "push-refused": "It passed, and could not be published",
  "overtaken": "It was checked again and again, and could not be published",
};

function failureReport(error: unknown): string {
  if (error instanceof AgentqError) {
    return `${WHAT_FAILED[error.code] ?? COULD_NOT_RUN}: ${error.message}\n${error.hint}`;
  }
  return `${COULD_NOT_RUN}: ${(error as Error)?.message ?? String(error)}`;
}

/** The tip of a result, or null where the branch did not exist before. */
export function tipOfResult(result: Result): Oid | null {
  return result.tip === NO_TIP ? null : result.tip;
}
