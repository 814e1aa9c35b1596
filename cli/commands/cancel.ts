/** `agentq cancel TICKET`: from here on it never lands. */
import { cancelTicket, isOnBranch } from "../../src/landing/operator.ts";
import { documentOfResult } from "../../src/landing/documents.ts";
import { participantId } from "../../src/landing/participant.ts";
import { systemClock } from "../../src/platform/clock.ts";
import type { Context } from "../context.ts";
import { openSession, ticketNumber } from "../landing.ts";
import { describeResult } from "../output/landing.ts";

export async function run(context: Context, args: readonly string[]): Promise<number> {
  const ticket = ticketNumber(args[0]);
  const { queue, snapshot } = await openSession(context);
  if (await isOnBranch(queue, snapshot, ticket, context.signal)) {
    context.print(
      { schema: "agentq.cancel/1", ticket, cancelled: false },
      () =>
        `too late: the branch is at what ticket ${ticket} wants already; the next lander records it`,
    );
    return 1;
  }
  const result = await cancelTicket(queue, snapshot, ticket, {
    clock: systemClock,
    by: participantId(),
    signal: context.signal,
  });
  if (result === null) {
    context.print(
      { schema: "agentq.cancel/1", ticket, cancelled: true },
      () => `ticket ${ticket} is cancelled: it gets that result in its turn and never lands`,
    );
    return 0;
  }
  const document = documentOfResult(result);
  context.print(document, () => `too late, it is done already\n${describeResult(document)}`);
  return document.reason === "cancelled" ? 0 : 1;
}
