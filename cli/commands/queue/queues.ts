/** `queue create|ls|rm|clear|size|status`: queues as wholes. */
import { AgentqError } from "../../../src/errors.ts";
import { noQueue } from "../../../src/queuefs/backends/shared.ts";
import { isInTree } from "../../../src/queuefs/names.ts";
import type { QueueBackend, QueueCounts } from "../../../src/queuefs/contract.ts";
import { removeMetrics } from "../../../src/queuefs/metrics-files.ts";
import type { Context } from "../../context.ts";
import type { CommandModule, Flags } from "../../spec.ts";
import { shownName } from "../../output/escape.ts";
import { printLines, warn, withBackend } from "./common.ts";
import { countersOf } from "./counters.ts";

type Run = CommandModule["run"];

/** The document that `queue status` prints. */
export function statusDocument({ pending, processing }: QueueCounts, queue?: string) {
  const unacked = pending + processing;
  return {
    schema: "agentq.queue/1",
    ...(queue === undefined ? {} : { queue }),
    pending,
    processing,
    unacked,
    complete: unacked === 0,
  };
}

/** All queues, or those at and below one; throws `queue-not-found` where there are none of these. */
async function listed(backend: QueueBackend, prefix: string | undefined): Promise<string[]> {
  const queues = await backend.list(prefix);
  if (prefix !== undefined && queues.length === 0) throw noQueue(prefix);
  return queues;
}

export const create: Run = (context, [name], flags) =>
  withBackend(context, flags, async (backend) => {
    await warn(context, backend);
    const created = await backend.create(name!);
    context.print(
      { schema: "agentq.queue-create/1", queue: name, created },
      () => created ? `created ${name}` : `${name} is there already`,
    );
    return 0;
  }, { create: true });

export const ls: Run = (context, [prefix], flags) =>
  withBackend(context, flags, async (backend) => {
    const queues = await listed(backend, prefix);
    if (context.json) {
      printLines(context, queues.map((queue) => ({ schema: "agentq.queue-ls/1", queue })));
    } else context.print(null, () => queues.map(shownName).join("\n"));
    return 0;
  });

export const rm: Run = (context, [name], flags) =>
  withBackend(context, flags, async (backend) => {
    const removed = await backend.remove(name!);
    for (const queue of removed) {
      const counters = countersOf(context, backend, queue);
      if (counters !== null) removeMetrics(counters);
    }
    context.print(
      { schema: "agentq.queue-rm/1", removed },
      () => removed.map(shownName).join("\n"),
    );
    return 0;
  });

export const clear: Run = (context, [name], flags) =>
  withBackend(context, flags, async (backend) => {
    const cleared = await backend.clear(name!);
    context.print(
      { schema: "agentq.queue-clear/1", queue: name, cleared },
      () => String(cleared),
    );
    return 0;
  });

export const size: Run = (context, [name], flags) =>
  withBackend(context, flags, async (backend) => {
    const { pending } = await backend.status(name!);
    context.print(
      { schema: "agentq.queue-size/1", queue: name, size: pending },
      () => String(pending),
    );
    return 0;
  });

export const status: Run = (context: Context, [name], flags: Flags) =>
  withBackend(context, flags, async (backend) => {
    // What a server is asked for the warnings goes to it together with the question itself.
    const faults: AgentqError[] = [];
    const [documents] = await Promise.all([
      statusDocuments(backend, name, flags.all === true, faults),
      warn(context, backend),
    ]);
    printLines(context, documents);
    // What could be counted is told; that it isn't all, too.
    const [fault, ...more] = faults;
    for (const { message } of more) context.progress.line(message);
    if (fault !== undefined) throw fault;
    return 0;
  });

async function statusDocuments(
  backend: QueueBackend,
  name: string | undefined,
  all: boolean,
  faults: AgentqError[],
) {
  if (all) {
    const isWanted = (queue: string) => name === undefined || isInTree(queue, name);
    // Other programs' queues among them may have names that can't be asked for.
    const every = await backend.statuses(undefined, (fault) => {
      if (isWanted(String(fault.details?.queue))) faults.push(fault);
    });
    const wanted = [...every].filter(([queue]) => isWanted(queue));
    if (name !== undefined && wanted.length + faults.length === 0) throw noQueue(name);
    return wanted.map(([queue, counts]) => statusDocument(counts, queue));
  }
  if (name === undefined) throw new AgentqError("usage", "name a queue, or pass --all");
  return [statusDocument(await backend.status(name))];
}
