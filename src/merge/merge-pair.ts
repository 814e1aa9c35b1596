/** `merge-tree`: the merge of two revisions as a document. */
import * as z from "zod/mini";
import type { AgentqError } from "../errors.ts";
import type { Repository } from "../git/repository.ts";
import { resolveCommit } from "../git/revision.ts";
import { commitGraph } from "./graph.ts";
import { mergeCommits } from "./merge-commits.ts";
import { overlay } from "./overlay.ts";
import { repositoryMergeOptions } from "./repository-options.ts";
import { pathText } from "./state.ts";
import type { MergeResult } from "./types.ts";

/** `agentq.merge/1`. */
export const mergeDocument = z.union([
  z.object({
    schema: z.literal("agentq.merge/1"),
    ours: z.string(),
    theirs: z.string(),
    bases: z.array(z.string()),
    clean: z.boolean(),
    tree: z.string(),
    conflicts: z.array(z.object({
      path: z.string(),
      type: z.string(),
      regions: z.array(z.string()),
    })),
    messages: z.array(z.string()),
  }),
  z.object({
    schema: z.literal("agentq.merge/1"),
    ours: z.string(),
    theirs: z.string(),
    error: z.object({ code: z.string(), message: z.string(), hint: z.string() }),
  }),
]);

export type MergeDocument = z.infer<typeof mergeDocument>;

/** Makes a merger for many pairs of one repository: commits are parsed once, settings read once. */
export function pairMerger(repository: Repository): (ours: string, theirs: string) => MergeResult {
  const { objects } = repository;
  const graph = commitGraph(objects);
  const options = repositoryMergeOptions(repository);
  return (ours, theirs) => {
    const left = resolveCommit(repository, ours);
    const right = resolveCommit(repository, theirs);
    const scratch = overlay(objects);
    const result = mergeCommits(scratch, left, right, {
      ...options,
      graph,
      labels: { ours, theirs },
    });
    // Like git: the tree can be looked at, though no ref leads to it.
    const made = scratch.newObjects();
    if (made.length > 0) {
      objects.batch(() => {
        for (const { type, data } of made) objects.write(type, data);
      });
    }
    return result;
  };
}

export function toMergeDocument(result: MergeResult): MergeDocument {
  const { ours, theirs, bases, clean, tree, conflicts, messages } = result;
  return {
    schema: "agentq.merge/1",
    ours,
    theirs,
    bases: [...bases],
    clean,
    tree,
    conflicts: conflicts.map(({ path, type, regions }) => ({
      path: pathText(path),
      type,
      regions: [...regions],
    })),
    messages: [...messages],
  };
}

/** The answer for a pair that could not be merged. */
export function toFailedMerge(ours: string, theirs: string, error: AgentqError): MergeDocument {
  return { schema: "agentq.merge/1", ours, theirs, error: error.toJSON() as never };
}
