/** `queue enqueue|dequeue|ack|requeue|fail|peek|messages`: one message, or a few. */
import { refuseStale } from "../../../src/queuefs/backends/shared.ts";
import type { Receipt, Settlement } from "../../../src/queuefs/contract.ts";
import { messageDocument } from "../../../src/queuefs/payload.ts";
import { AgentqError } from "../../../src/errors.ts";
import type { Context } from "../../context.ts";
import type { CommandModule, Flags } from "../../spec.ts";
import {
  deliverable,
  inputBytes,
  milliseconds,
  ownerOf,
  printLines,
  withBackend,
} from "./common.ts";

type Run = CommandModule["run"];

export const enqueue: Run = (context, [name, given], flags) =>
  withBackend(context, flags, async (backend) => {
    const data = await inputBytes(context, given);
    if (flags.lines === true && typeof flags.id === "string") {
      throw new AgentqError("usage", "--id names one message, --lines makes many");
    }
    const messages = flags.lines === true
      ? splitLines(data).map((line) => ({ data: line }))
      : [{ data, ...(typeof flags.id === "string" ? { id: flags.id } : {}) }];
    const ids = await backend.enqueue(name!, messages);
    if (flags.lines !== true) {
      context.print({ schema: "agentq.queue-enqueue/1", queue: name, id: ids[0] }, () => ids[0]!);
    } else if (context.json) {
      printLines(context, ids.map((id) => ({ schema: "agentq.queue-enqueue/1", queue: name, id })));
    } else context.print(null, () => ids.join("\n"));
    return 0;
  });

export const dequeue: Run = (context, [name], flags) =>
  withBackend(context, flags, async (backend) => {
    await deliverable(context, {
      backend,
      queue: name!,
      take: () =>
        backend.dequeue(name!, {
          owner: ownerOf(flags),
          leaseMs: milliseconds(flags, "lease")!,
          count: Number(flags.count ?? 1),
        }),
      print: (deliveries) => {
        const documents = deliveries.map(({ id, data, lease, attempts }) => ({
          ...messageDocument({ id, data }),
          ...(flags.receipt === true ? { lease, attempts } : {}),
        }));
        printLines(context, documents.length === 0 ? [{}] : documents);
      },
      giveBack: (deliveries) => {
        const receipts = deliveries.map(({ id, lease }) => ({ id, lease }));
        return backend.requeue(name!, receipts, { counted: false });
      },
      ids: (deliveries) => deliveries.map(({ id }) => id),
    });
    return 0;
  });

export const peek: Run = (context, [name], flags) =>
  withBackend(context, flags, async (backend) => {
    const message = await backend.peek(name!);
    printLines(context, [message === null ? {} : messageDocument(message)]);
    return 0;
  });

export const messages: Run = (context, [name], flags) =>
  withBackend(context, flags, async (backend) => {
    const all = await backend.messages(name!);
    printLines(context, all.map(({ state, ...rest }) => ({ ...messageDocument(rest), state })));
    return 0;
  });

export const ack: Run = (context, [name, ...ids], flags) =>
  withBackend(context, flags, async (backend) => {
    const receipts = receiptsOf(ids, flags);
    return settled(context, "ack", name!, receipts, await backend.ack(name!, receipts));
  });

export const requeue: Run = (context, [name, ...ids], flags) =>
  withBackend(context, flags, async (backend) => {
    const receipts = receiptsOf(ids, flags);
    return settled(context, "requeue", name!, receipts, await backend.requeue(name!, receipts));
  });

export const fail: Run = (context, [name, id], flags) =>
  withBackend(context, flags, async (backend) => {
    const receipts = receiptsOf([id!], flags);
    const reason = String(flags.reason ?? "failed by hand");
    return settled(context, "fail", name!, receipts, await backend.fail(name!, receipts, reason));
  });

/**
 * A lease names one delivery exactly; without it, what this owner was given last is meant. An id that is
 * named twice is one message: the second time it would be stale for having been settled the first.
 */
function receiptsOf(named: readonly string[], flags: Flags): Receipt[] {
  const { lease } = flags;
  const ids = [...new Set(named)];
  if (lease === undefined) return ids.map((id) => ({ id, owner: ownerOf(flags) }));
  if (ids.length !== 1) throw new AgentqError("usage", "--lease names one delivery of one message");
  return [{ id: ids[0]!, lease: String(lease) }];
}

/**
 * Prints what was settled; where anything was stale, throws after that. With `--json` there is one document: the error,
 * whose details name both.
 */
function settled(
  context: Context,
  what: string,
  queue: string,
  receipts: readonly Receipt[],
  settlements: readonly Settlement[],
): number {
  const results = receipts.map(({ id }, i) => ({ id, outcome: settlements[i] }));
  const said = () =>
    results.filter(({ outcome }) => outcome !== "stale")
      .map(({ id, outcome }) => outcome === "superseded" ? `${id} superseded` : id).join("\n");
  if (!settlements.includes("stale")) {
    context.print({ schema: `agentq.queue-${what}/1`, queue, messages: results }, said);
    return 0;
  }
  if (!context.json) context.print(null, said);
  refuseStale(queue, receipts, settlements);
  return 1;
}

/** Each line without its newline; a newline at the end makes no empty message. */
function splitLines(data: Uint8Array): Uint8Array[] {
  const lines: Uint8Array[] = [];
  for (let from = 0; from < data.length;) {
    const end = data.indexOf(0x0a, from);
    lines.push(data.subarray(from, end < 0 ? data.length : end));
    from = end < 0 ? data.length : end + 1;
  }
  return lines;
}
