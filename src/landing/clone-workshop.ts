/**
 * The workshop of a real machine: merges in a clone's objects, checks in a persistent worktree.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { AgentqError } from "../errors.ts";
import { parseCommit } from "../git/commit.ts";
import { isAncestor } from "../git/history.ts";
import { pacer } from "../git/pacer.ts";
import type { Repository } from "../git/repository.ts";
import type { Oid, Origin } from "../git/types.ts";
import { prepareWorktree } from "../git/worktree.ts";
import { inTurns } from "../merge/steps.ts";
import { preparePipes } from "../platform/pipes.ts";
import { runCommand } from "../platform/process.ts";
import type { TicketEntry } from "./chain.ts";
import { landingMerge } from "./landing-merge.ts";
import { type Pins, pinsAt } from "./pins.ts";
import { REASONS } from "./result.ts";
import { isInstalled, missingSandbox, unstartableSandbox } from "./sandbox.ts";
import { checksOf, runChecks } from "./verify.ts";
import { createWorkingObjects } from "./working-objects.ts";
import type { ReadyMerge, Refusal, Verified, Workshop } from "./workshop.ts";

export interface CloneWorkshopOptions {
  /** Leave tickets that bring a command of their own to other landers. */
  readonly noTicketCommands: boolean;
  /** Receives the checks' output. */
  readonly onOutput?: (chunk: Uint8Array) => void;
  readonly onNote?: (text: string) => void;
}

export function createCloneWorkshop(
  origin: Origin,
  repository: Repository,
  options: CloneWorkshopOptions,
): Workshop {
  const objects = createWorkingObjects(origin, repository.objects);
  /** The newest answer of `contains`: asked again for every refused ticket. */
  let contained: { commit: Oid; ancestor: Oid } | null = null;

  async function contains(commit: Oid, ancestor: Oid, signal: AbortSignal): Promise<boolean> {
    if (contained?.commit === commit && contained.ancestor === ancestor) return true;
    await objects.ensure([commit], signal);
    const answer = await objects.supplied(() => isAncestor(objects, ancestor, commit), signal);
    if (answer) contained = { commit, ancestor };
    return answer;
  }

  async function merge(
    ticket: TicketEntry,
    tip: Oid | null,
    signal: AbortSignal,
  ): Promise<ReadyMerge | Refusal> {
    const { candidate } = ticket.message;
    await objects.ensure(tip === null ? [candidate] : [tip, candidate], signal);
    return await objects.supplied(
      () => inTurns(landingMerge(objects, ticket, tip), pacer(signal)),
      signal,
    );
  }

  /** What goes wrong in a clone that somebody has removed says nothing about the ticket. */
  async function whileItStands<T>(work: Promise<T>): Promise<T> {
    return await work.catch((error) => {
      assertStands(repository);
      throw error;
    });
  }

  return {
    contains,
    merge: (...args) => whileItStands(merge(...args)),
    async reading(commit, signal) {
      await objects.ensure([commit], signal);
      return objects;
    },
    async parents(commit, signal) {
      await objects.ensure([commit], signal);
      return parseCommit(objects.read(commit).data, commit).parents;
    },
    async mergedCommit(ticket, tip, signal) {
      const made = await merge(ticket, tip, signal);
      return made.verdict === "ready" ? made.commit : null;
    },
    async admit(ticket, tip, signal) {
      const { verify_cmd: command, check } = ticket.message;
      if (tip !== null) await objects.ensure([tip], signal);
      const pins = pinsAt(objects, tip);
      const own = typeof command === "string" && !pins.verify.includes(command);
      if (own && pins.ticketCommands === "refuse") return notAllowed(command);
      if (check === "sem" && !isInstalled("sem")) return noSem();
      if (typeof check === "string" && check !== "sem") return unknownCheck(check);
      if (own && options.noTicketCommands) {
        return {
          verdict: "left",
          why: "it brings a verify command, which this lander doesn't run",
        };
      }
      const missing = missingSandbox(pins.sandbox);
      if (missing !== null && checksOf(ticket, pins).length > 0) {
        return { verdict: "left", why: missing };
      }
      return null;
    },
    verify: (...args) => whileItStands(verify(...args)),
  };

  async function verify(
    ...[ticket, tip, ready, signal, begin]: Parameters<Workshop["verify"]>
  ): ReturnType<Workshop["verify"]> {
    const pins: Pins = pinsAt(objects, tip);
    const checks = checksOf(ticket, pins);
    if (checks.length === 0) return { verdict: "verified", report: "", verify: null };
    begin?.();
    const pipes = preparePipes();
    const wants = [ready.commit, ticket.message.candidate, ...(tip === null ? [] : [tip])];
    await objects.ensureOnDisk(wants, ready.tree, signal);
    const worktree = await objects.supplied(() =>
      prepareWorktree(
        repository,
        join(repository.commonDir, "agentq", "worktrees"),
        "verify",
        ready.commit,
        { signal },
      ), signal);
    try {
      noteIncomplete(worktree.checkout, options.onNote);
      await pipes;
      const result = await runChecks(ticket, checks, pins, {
        path: worktree.path,
        repository: repository.workTree ?? repository.gitDir,
        config: repository.config.entries(),
        tip,
      }, {
        signal,
        run: runCommand,
        ...(options.onOutput && { onOutput: options.onOutput }),
      }) satisfies Verified | Refusal;
      assertStands(repository);
      return result;
    } catch (error) {
      const why = unstartableSandbox(pins.sandbox, error);
      if (why === null) throw error;
      return { verdict: "left", why };
    } finally {
      worktree.release();
    }
  }
}

/** Checks that ran while somebody removed the clone, and their worktree with it, say nothing. */
function assertStands({ gitDir, commonDir }: Repository): void {
  // A worktree may go by itself.
  const gone = [commonDir, gitDir].find((path) => !existsSync(join(path, "HEAD")));
  if (gone === undefined) return;
  throw new AgentqError("io-error", `${gone} was removed while a ticket was being landed in it`, {
    hint: "Leave the clone in place until its agentq has ended.",
    details: { path: gone },
  });
}

/** What isn't in the worktree as a person would have it is said out loud. */
function noteIncomplete(
  checkout: { unfiltered: readonly string[]; submodules: readonly string[]; outsideSparse: number },
  note: ((text: string) => void) | undefined,
): void {
  const { unfiltered, submodules, outsideSparse } = checkout;
  if (unfiltered.length > 0) {
    note?.(
      `${unfiltered.length} files with a filter (Git LFS and the like) hold what the repository ` +
        `holds, such as ${unfiltered[0]}`,
    );
  }
  if (submodules.length > 0) note?.(`submodules are left empty: ${submodules.join(", ")}`);
  if (outsideSparse > 0) note?.(`${outsideSparse} files lie outside the sparse checkout`);
}

function notAllowed(command: string): Refusal {
  return {
    verdict: "refused",
    reason: REASONS.command,
    files: [],
    regions: [],
    report: `The branch's agentq.json allows only its own checks. This ticket brought: ${command}`,
  };
}

function noSem(): Refusal {
  return {
    verdict: "refused",
    reason: REASONS.sem,
    files: [],
    regions: [],
    report: "The ticket asks for `sem check`, which isn't installed where it was to be landed.",
  };
}

function unknownCheck(check: string): Refusal {
  return {
    verdict: "refused",
    reason: REASONS.failed,
    files: [],
    regions: [],
    report: `The ticket asks for the check ${JSON.stringify(check)}, which agentq doesn't know.`,
  };
}
