/** `agentq show TICKET`: one ticket and its result, whole. */
import { numberOf } from "../../src/landing/chain.ts";
import type { EntryCache } from "../../src/landing/entry-cache.ts";
import { readControl } from "../../src/landing/control.ts";
import { unknownTicket } from "../../src/landing/snapshot.ts";
import { documentOfTicket } from "../../src/landing/documents.ts";
import type { Context } from "../context.ts";
import { keptEntries, openSession, ticketNumber } from "../landing.ts";
import { describeTicket } from "../output/landing.ts";

export async function run(context: Context, args: readonly string[]): Promise<number> {
  const number = ticketNumber(args[0]);
  let kept: EntryCache | undefined;
  const { queue, snapshot } = await openSession(
    context,
    (origin) => kept = keptEntries(context, origin),
  );
  if (number > numberOf(snapshot.queue)) throw unknownTicket(number, snapshot);
  const [ticket, result, control] = await Promise.all([
    queue.chains.find("queue", snapshot.queue!, number, context.signal),
    number < snapshot.next
      ? queue.chains.find("done", snapshot.done!, number, context.signal)
      : null,
    readControl(queue, snapshot.lock, context.signal),
  ]);
  const document = documentOfTicket(ticket, result, snapshot, control);
  context.print(document, () => describeTicket(document));
  kept?.save();
  return 0;
}
