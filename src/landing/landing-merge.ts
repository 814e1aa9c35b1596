/** The merge of a ticket with the branch's tip, and what keeps it from being published. */
import { isAgentqError } from "../errors.ts";
import { attributeLookup } from "../git/attributes.ts";
import { isAncestor } from "../git/history.ts";
import { quotePath } from "../git/path-quote.ts";
import type { ObjectReader, Oid } from "../git/types.ts";
import { findUnsafePath } from "../git/unsafe-tree.ts";
import { treeFiles } from "../git/work-tree-settings.ts";
import { gateSteps, LANDING_LABELS } from "../merge/gate.ts";
import { mergeSteps } from "../merge/merge-commits.ts";
import { overlay } from "../merge/overlay.ts";
import { pathText } from "../merge/state.ts";
import type { Steps } from "../merge/steps.ts";
import type { MergeOptions } from "../merge/types.ts";
import { parseCommit } from "../git/commit.ts";
import type { TicketEntry } from "./chain.ts";
import { landingCommit } from "./merge-commit.ts";
import { pinsEntry, readPins } from "./pins.ts";
import { REASONS } from "./result.ts";
import { inFront, type WorkingObjects } from "./working-objects.ts";
import type { ReadyMerge, Refusal } from "./workshop.ts";

/**
 * Merges and gates a ticket on `tip` (null: the branch doesn't exist), in turns. What it makes is kept in `objects`.
 * Nothing of the clone's configuration counts, only the trees: two landers must make the same commit.
 * @throws `object-missing`
 */
export function* landingMerge(
  objects: WorkingObjects,
  ticket: TicketEntry,
  tip: Oid | null,
): Steps<ReadyMerge | Refusal> {
  const { candidate } = ticket.message;
  const drops = ticket.message.agentq?.drops ?? [];
  const tree = treeOf(objects, candidate);
  if (tip === null) {
    return guarded(
      objects,
      { verdict: "ready", commit: candidate, tree, base: null, objects },
      null,
    );
  }
  if (isAncestor(objects, candidate, tip)) return nothingToLand(candidate, tip);
  if (isAncestor(objects, tip, candidate)) {
    const gate = yield* gateSteps(objects, {
      tip,
      candidate,
      drops,
      options: mergeOptions(objects, tip),
    });
    if (!gate.ok) return { verdict: "refused", ...gate };
    return guarded(objects, { verdict: "ready", commit: candidate, tree, base: tip, objects }, tip);
  }
  return yield* mergeBoth(objects, ticket, tip, drops);
}

function* mergeBoth(
  objects: WorkingObjects,
  ticket: TicketEntry,
  tip: Oid,
  drops: readonly string[],
): Steps<ReadyMerge | Refusal> {
  const { candidate } = ticket.message;
  const scratch = overlay(objects);
  const settings = mergeOptions(objects, tip);
  try {
    const merged = yield* mergeSteps(scratch, tip, candidate, settings);
    const asked = { tip, candidate, merge: merged, drops, options: settings };
    const gate = yield* gateSteps(scratch, asked);
    if (!gate.ok) return { verdict: "refused", ...gate };
    const commit = landingCommit(objects, ticket, tip, merged.tree);
    const made = [
      ...scratch.newObjects(),
      { oid: commit.oid, type: "commit" as const, data: commit.content },
    ];
    objects.keep(made);
    return guarded(objects, {
      verdict: "ready",
      commit: commit.oid,
      tree: merged.tree,
      base: merged.bases[0] ?? null,
      objects: inFront(made, objects),
    }, tip);
  } catch (error) {
    if (!isAgentqError(error, "unrelated-histories")) throw error;
    return {
      verdict: "refused",
      reason: REASONS.merge,
      files: [],
      regions: [],
      report: `The branch, at ${tip}, and the candidate ${candidate} have no commit in common: ` +
        `the candidate was not made from this branch.\n${error.hint}`,
    };
  }
}

function mergeOptions(objects: ObjectReader, tip: Oid): MergeOptions {
  const lookup = attributeLookup({ files: treeFiles(objects, treeOf(objects, tip)) });
  return { attributes: (path) => lookup.of(path), labels: LANDING_LABELS };
}

/**
 * What would keep everything after it from landing must not get onto the branch, verified or not:
 * paths that can't be checked out, and an agentq.json that can't be read.
 */
function guarded(objects: ObjectReader, ready: ReadyMerge, tip: Oid | null): ReadyMerge | Refusal {
  const onBranch = tip === null ? null : treeOf(objects, tip);
  const unsafe = findUnsafePath(ready.objects, onBranch, ready.tree);
  if (unsafe !== null) {
    const { path, reason } = unsafe;
    return {
      verdict: "refused",
      reason: REASONS.failed,
      files: [pathText(path)],
      regions: [],
      report: `The path ${quotePath(path)} has ${reason}: no checkout may write it. ` +
        "Take it out of the candidate's tree and submit again.",
    };
  }
  const after = pinsEntry(ready.objects, ready.tree);
  const before = onBranch === null ? null : pinsEntry(objects, onBranch);
  if (after === null || after.oid === before?.oid) return ready;
  try {
    readPins(ready.objects, ready.tree);
    return ready;
  } catch (error) {
    if (!isAgentqError(error, "pins-invalid")) throw error;
    return {
      verdict: "refused",
      reason: REASONS.failed,
      files: ["agentq.json"],
      regions: [],
      report: `After this landing ${error.message}; nothing could land any more.`,
    };
  }
}

function treeOf(objects: ObjectReader, commit: Oid): Oid {
  return parseCommit(objects.read(commit).data, commit).tree;
}

function nothingToLand(candidate: Oid, tip: Oid): Refusal {
  return {
    verdict: "refused",
    reason: REASONS.nothing,
    files: [],
    regions: [],
    report: candidate === tip
      ? `The branch is at ${tip} already: there is nothing new in this candidate.`
      : `The branch, at ${tip}, contains ${candidate} already.`,
  };
}
