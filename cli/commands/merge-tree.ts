/** `agentq merge-tree`: the merge a landing would make. */
import { AgentqError } from "../../src/errors.ts";
import { promisorOf } from "../../src/git/missing-blobs.ts";
import { shownPath, shownSentence } from "../../src/git/path-quote.ts";
import { supplied } from "../../src/git/supply.ts";
import { pairMerger, toFailedMerge, toMergeDocument } from "../../src/merge/merge-pair.ts";
import type { MergeResult } from "../../src/merge/types.ts";
import type { Context } from "../context.ts";
import { inputLines } from "../input.ts";
import { toAgentqError } from "../output/errors.ts";
import { safeJson } from "../output/escape.ts";
import { writeOut } from "../output/write.ts";
import type { Flags } from "../spec.ts";

export async function run(
  context: Context,
  args: readonly string[],
  flags: Flags,
): Promise<number> {
  const merge = supplyingMerger(context);
  if (flags.stdin === true) {
    if (args.length > 0) {
      throw new AgentqError("usage", "--stdin takes its commits from stdin only");
    }
    return await answerLines(context, merge);
  }
  const [ours, theirs] = args;
  if (ours === undefined || theirs === undefined) {
    throw new AgentqError("usage", "merge-tree takes two commits: OURS THEIRS");
  }
  const result = await merge(ours, theirs);
  context.print(toMergeDocument(result), () => describe(result));
  return result.clean ? 0 : 1;
}

type Merger = (ours: string, theirs: string) => MergeResult | Promise<MergeResult>;

/** In a partial clone what a merge misses is fetched from the remote that promised it. */
function supplyingMerger(context: Context): Merger {
  const repository = context.repository();
  const merge = pairMerger(repository);
  const promisor = promisorOf(repository);
  if (promisor === null) return merge;
  return async (ours, theirs) => {
    const { openOrigin } = await import("../../src/git/origin.ts");
    const { signal } = context;
    const origin = await openOrigin(promisor, { repository, reading: true });
    try {
      return await supplied(
        () => merge(ours, theirs),
        (oids) => origin.fetch(oids, repository.objects, { signal }),
      );
    } finally {
      origin.close();
    }
  };
}

/** One document a line, in the order of the lines; a pair that can't be merged gets an error. */
async function answerLines(
  context: Context,
  merge: Merger,
): Promise<number> {
  for await (const line of inputLines(context.signal)) {
    if (line.trim() === "") continue;
    const [ours = "", theirs = "", ...more] = line.trim().split(/\s+/);
    let document;
    try {
      if (theirs === "" || more.length > 0) {
        throw new AgentqError("usage", "A line of input is OURS THEIRS.", {
          hint: "Give two commits, with a space between them.",
        });
      }
      document = toMergeDocument(await merge(ours, theirs));
    } catch (thrown) {
      document = toFailedMerge(ours, theirs, toAgentqError(thrown));
    }
    writeOut(`${safeJson(document)}\n`);
  }
  return 0;
}

function describe(result: MergeResult): string {
  const lines = [`${result.clean ? "clean" : "conflicts"} ${result.tree}`];
  const { conflicts, messages } = toMergeDocument(result) as ReturnType<typeof toMergeDocument> & {
    conflicts: { path: string; type: string; regions: string[] }[];
    messages: string[];
  };
  for (const { path, type, regions } of conflicts) {
    lines.push(
      `  ${shownPath(path)} (${type})${regions.length > 0 ? ` lines ${regions.join(", ")}` : ""}`,
    );
  }
  const paths = conflicts.map(({ path }) => path);
  if (messages.length > 0) {
    lines.push("", ...messages.map((message) => shownSentence(message, paths)));
  }
  return lines.join("\n");
}
