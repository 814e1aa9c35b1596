/** `agentq log`: results, newest first. */
import { documentOfResult } from "../../src/landing/documents.ts";
import type { EntryCache } from "../../src/landing/entry-cache.ts";
import { readAhead } from "../../src/landing/read-ahead.ts";
import type { Context } from "../context.ts";
import { keptEntries, openSession } from "../landing.ts";
import { describeLine } from "../output/landing.ts";
import type { Flags } from "../spec.ts";

export async function run(
  context: Context,
  _args: readonly string[],
  flags: Flags,
): Promise<number> {
  let kept: EntryCache | undefined;
  const { queue, snapshot } = await openSession(
    context,
    (origin) => kept = keptEntries(context, origin),
  );
  let at = snapshot.done;
  const number = Number(flags.number);
  // Results are printed as they come: a thousand at a time are asked for ahead.
  const stretch = 1000;
  for (let left = number; at !== null && left > 0; left--) {
    if ((number - left) % stretch === 0) {
      const lowest = Math.max(0, at.message.ticket - Math.min(left, stretch) + 1);
      await readAhead(queue.chains, "done", at, lowest, context.signal);
    }
    const document = documentOfResult(at);
    context.print(document, () => describeLine(document));
    if (left > 1) at = await queue.chains.before("done", at, context.signal);
  }
  kept?.save();
  return 0;
}
