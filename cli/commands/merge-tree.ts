/** `agentq merge-tree`: the merge a landing would make. */
import process from "node:process";
import { createInterface } from "node:readline";
import { AgentqError } from "../../src/errors.ts";
import { pairMerger, toFailedMerge, toMergeDocument } from "../../src/merge/merge-pair.ts";
import type { MergeResult } from "../../src/merge/types.ts";
import type { Context } from "../context.ts";
import { toAgentqError } from "../output/errors.ts";
import { safeJson } from "../output/escape.ts";
import { writeOut } from "../output/write.ts";
import type { Flags } from "../spec.ts";

export async function run(
  context: Context,
  args: readonly string[],
  flags: Flags,
): Promise<number> {
  const merge = pairMerger(context.repository());
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
  const result = merge(ours, theirs);
  context.print(toMergeDocument(result), () => describe(result));
  return result.clean ? 0 : 1;
}

/** One document a line, in the order of the lines; a pair that can't be merged gets an error. */
async function answerLines(
  context: Context,
  merge: (ours: string, theirs: string) => MergeResult,
): Promise<number> {
  for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
    context.signal.throwIfAborted();
    if (line.trim() === "") continue;
    const [ours = "", theirs = "", ...more] = line.trim().split(/\s+/);
    let document;
    try {
      if (theirs === "" || more.length > 0) {
        throw new AgentqError("usage", "A line of input is OURS THEIRS.", {
          hint: "Give two commits, with a space between them.",
        });
      }
      document = toMergeDocument(merge(ours, theirs));
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
    lines.push(`  ${path} (${type})${regions.length > 0 ? ` lines ${regions.join(", ")}` : ""}`);
  }
  if (messages.length > 0) lines.push("", ...messages);
  return lines.join("\n");
}
