/** `agentq log`: results, newest first. */
import { documentOfResult } from "../../src/landing/documents.ts";
import type { Context } from "../context.ts";
import { openSession } from "../landing.ts";
import { describeLine } from "../output/landing.ts";
import type { Flags } from "../spec.ts";

export async function run(
  context: Context,
  _args: readonly string[],
  flags: Flags,
): Promise<number> {
  const { queue, snapshot } = await openSession(context);
  let at = snapshot.done;
  for (let left = Number(flags.number); at !== null && left > 0; left--) {
    const document = documentOfResult(at);
    context.print(document, () => describeLine(document));
    if (left > 1) at = await queue.chains.before("done", at, context.signal);
  }
  return 0;
}
