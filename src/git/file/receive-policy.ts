/**
 * What git's receive-pack refuses by itself, before any hook: `receive.*` settings and the branch that
 * somebody has checked out.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { isAgentqError } from "../../errors.ts";
import { parseCommitLinks } from "../commit.ts";
import type { GitConfig } from "../config.ts";
import { type Enumerated, newCommits } from "../enumerate.ts";
import { writePack } from "../pack-write.ts";
import { readRefUncached } from "../refs.ts";
import type { Repository } from "../repository.ts";
import type { ObjectReader, Oid, RefUpdate } from "../types.ts";
import { hiddenRefs } from "./hidden-refs.ts";
import { checkReceiveSettings, denyCurrentBranch, maxInputSize } from "./receive-settings.ts";
import { resolveRef } from "./ref-transaction.ts";

export interface Refusal {
  readonly ref: string;
  readonly reason: string;
}

const HIDDEN = [
  ["receive", "the origin hides this ref and lets nobody push to it"],
  ["uploadpack", "the origin hides this ref from readers"],
] as const;

/** A ref that the origin's settings hide from whoever reads or pushes. */
export function hiddenUpdate(
  config: GitConfig,
  updates: readonly RefUpdate[],
): Refusal | null {
  for (const [service, reason] of HIDDEN) {
    const hidden = hiddenRefs(config, service);
    for (const { ref } of updates) {
      const setting = hidden(ref);
      if (setting !== null) return { ref, reason: `${reason} (${setting})` };
    }
  }
  return null;
}

type Place = Pick<Repository, "gitDir" | "commonDir" | "bare">;

/**
 * The first update that the origin's own settings refuse, or null. `objects` reads both sides.
 * @throws `config-invalid` for settings with which git's receive-pack ends
 */
export function refusedByPolicy(
  origin: Place,
  config: GitConfig,
  updates: readonly RefUpdate[],
  objects: ObjectReader,
): Refusal | null {
  checkReceiveSettings(config);
  const proc = config.getAll("receive.procReceiveRefs");
  const noFastForwards = config.getBoolean("receive.denyNonFastForwards") ?? false;
  let checkedOut: Map<string, string> | undefined;
  for (const { ref, old, new: oid } of updates) {
    if (proc.some((rule) => procCovers(rule, ref))) {
      return { ref, reason: "receive.procReceiveRefs hands this ref to a proc-receive hook" };
    }
    const target = resolveRef(origin.commonDir, ref).chain.at(-1)!;
    if (!target.startsWith("refs/heads/")) continue;
    if (objects.stat(oid).type !== "commit") {
      return { ref, reason: "a branch can only hold a commit" };
    }
    checkedOut ??= checkedOutBranches(origin, config);
    const where = checkedOut.get(target);
    if (where !== undefined) {
      const reason = currentBranchRefusal(config, where);
      if (reason) return { ref, reason };
    }
    if (noFastForwards && old !== null && !contains(objects, oid, old)) {
      return { ref, reason: "not a fast-forward, and receive.denyNonFastForwards is set" };
    }
  }
  return null;
}

/** `receive.maxInputSize` limits the pack as it would come over a wire. Null: it is within that. */
export function tooLarge(
  config: GitConfig,
  objects: ObjectReader,
  list: readonly Enumerated[],
): string | null {
  const limit = maxInputSize(config);
  if (limit === null || list.length === 0) return null;
  let size = 0;
  for (const chunk of writePack(objects, list, { thin: true })) {
    if ((size += chunk.length) > limit) {
      return `the pack is larger than ${limit} bytes, which the origin's receive.maxInputSize allows`;
    }
  }
  return null;
}

/** `receive.procReceiveRefs` is `[adm!]:prefix` or a prefix; a leading `!` in the flags takes out. */
function procCovers(rule: string, ref: string): boolean {
  const colon = rule.indexOf(":");
  const flags = colon < 0 ? "" : rule.slice(0, colon);
  const prefix = rule.slice(colon + 1).replace(/\/+$/, "");
  const matches = ref === prefix || ref.startsWith(`${prefix}/`);
  return flags.includes("!") ? !matches : matches;
}

/** Branches that a work tree of the origin has checked out, with that work tree's git directory. */
function checkedOutBranches(origin: Place, config: GitConfig): Map<string, string> {
  const found = new Map<string, string>();
  const note = (gitDir: string) => {
    try {
      const head = readRefUncached({ gitDir, commonDir: origin.commonDir }, "HEAD");
      if (head?.target) found.set(head.target, gitDir);
      else for (const branch of comesBackTo(gitDir)) found.set(branch, gitDir);
    } catch (error) {
      if (!isAgentqError(error, "repository-corrupt")) throw error;
    }
  };
  let names: string[] = [];
  try {
    names = readdirSync(`${origin.commonDir}/worktrees`);
  } catch {
    // The origin has no linked worktrees.
  }
  for (const name of names) note(`${origin.commonDir}/worktrees/${name}`);
  // A git directory by itself counts as having a work tree, for git too, when its settings say so; and that a linked
  // worktree is one says nothing of the repository that it belongs to.
  const main = origin.gitDir === origin.commonDir && !origin.bare;
  if (main || config.getBoolean("core.bare") === false) note(origin.commonDir);
  return found;
}

/** Branches to which a rebase or a bisection in a work tree with a detached HEAD comes back: checked out, to git. */
function comesBackTo(gitDir: string): string[] {
  const line = (name: string) => {
    try {
      return readFileSync(`${gitDir}/${name}`, "utf8").replace(/\n[^]*$/, "");
    } catch {
      return null;
    }
  };
  const applies = existsSync(`${gitDir}/rebase-apply`);
  const rebased = !applies
    ? line("rebase-merge/head-name")
    : existsSync(`${gitDir}/rebase-apply/applying`)
    ? null
    : line("rebase-apply/head-name");
  const bisected = existsSync(`${gitDir}/BISECT_LOG`) ? line("BISECT_START") : null;
  return [rebased, bisected].filter((name) => name !== null && name !== "")
    .map((name) => name!.startsWith("refs/") ? name! : `refs/heads/${name}`);
}

function currentBranchRefusal(config: GitConfig, where: string): string | null {
  switch (denyCurrentBranch(config)) {
    case "ignore":
      return null;
    case "updateInstead":
      return `it is checked out in ${where}, and agentq can't update a work tree of the origin ` +
        "(receive.denyCurrentBranch=updateInstead)";
    case "refuse":
      return `it is checked out in ${where} (receive.denyCurrentBranch)`;
  }
}

/** True when `descendant` reaches `ancestor`. */
function contains(objects: ObjectReader, descendant: Oid, ancestor: Oid): boolean {
  if (descendant === ancestor) return true;
  if (objects.stat(ancestor).type !== "commit") return false;
  // A walk by date nearly always finds it near; only before refusing is everything looked at.
  if (newCommits(objects, [ancestor], [descendant]).commits.length === 0) return true;
  const seen = new Set<Oid>();
  const waiting = [descendant];
  for (let oid = waiting.pop(); oid !== undefined; oid = waiting.pop()) {
    for (const parent of parseCommitLinks(objects.read(oid).data, oid).parents) {
      if (parent === ancestor) return true;
      if (seen.has(parent) || !objects.has(parent)) continue;
      seen.add(parent);
      waiting.push(parent);
    }
  }
  return false;
}
