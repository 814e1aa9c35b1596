/**
 * After a refused merge: the same merge, left in progress in the submitter's own clone, so that it can
 * be resolved in place and submitted again.
 */
import { operationInProgress } from "../git/operation.ts";
import { leaveMergeInProgress, type LeaveOutcome } from "../git/in-progress.ts";
import { mergeTitle } from "../git/merge-state.ts";
import { supplied } from "../git/supply.ts";
import type { Repository } from "../git/repository.ts";
import type { Oid, Origin } from "../git/types.ts";
import { mergeCommits } from "../merge/merge-commits.ts";
import { overlay } from "../merge/overlay.ts";
import { repositoryMergeOptions } from "../merge/repository-options.ts";

export type LeftMerge =
  | LeaveOutcome
  /** The branch moved on and the merge passes now. */
  | { readonly left: false; readonly reason: "clean"; readonly message: string };

export interface RefusedMerge {
  readonly candidate: Oid;
  /** The branch as it is now. */
  readonly tip: Oid;
  /** What the tip is called after the conflict markers, such as `origin/main`. */
  readonly label: string;
  readonly signal?: AbortSignal;
}

/** Merges `tip` into the clone's HEAD, which must be the candidate, and leaves the conflicts there. */
export async function leaveRefusedMerge(
  origin: Origin,
  repository: Repository,
  refused: RefusedMerge,
): Promise<LeftMerge> {
  const { candidate, tip, signal } = refused;
  const head = repository.head().oid;
  if (head !== candidate) {
    return {
      left: false,
      reason: "HEAD moved",
      message: `HEAD is ${head ?? "unborn"}, not the candidate ${candidate}.`,
      paths: [],
    };
  }
  if (operationInProgress(repository) !== null) {
    return {
      left: false,
      reason: "operation in progress",
      message: "Another operation is in progress here.",
      paths: [],
    };
  }
  const { objects } = repository;
  const fetch = (oids: readonly Oid[]) => origin.fetch(oids, objects, signal ? { signal } : {});
  if (!objects.has(tip)) await fetch([tip]);
  return await supplied(() => leave(repository, refused), fetch);
}

/** @throws `object-missing`, with nothing changed */
async function leave(repository: Repository, refused: RefusedMerge): Promise<LeftMerge> {
  const { candidate, tip, label } = refused;
  const { objects } = repository;
  const scratch = overlay(objects);
  const merged = mergeCommits(scratch, candidate, tip, {
    ...repositoryMergeOptions(repository),
    labels: { ours: "HEAD", theirs: label },
  });
  if (merged.clean) {
    return { left: false, reason: "clean", message: `The merge with ${label} passes by now.` };
  }
  return await leaveMergeInProgress(repository, merged, {
    objects: scratch,
    message: mergeTitle(repository.config, label, repository.head().branch),
  });
}
