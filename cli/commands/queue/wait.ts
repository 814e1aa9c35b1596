/** `queue wait|recover`. */
import { waitComplete } from "../../../src/queuefs/completion.ts";
import type { CommandModule } from "../../spec.ts";
import { milliseconds, withBackend } from "./common.ts";
import { statusDocument } from "./queues.ts";

type Run = CommandModule["run"];

export const wait: Run = (context, [name], flags) =>
  withBackend(context, flags, async (backend) => {
    const timeoutMs = milliseconds(flags, "timeout");
    await waitComplete(backend, [name!], {
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
      signal: context.signal,
      onProgress: (counts) => {
        const { pending, processing } = counts.get(name!)!;
        context.progress.update(`${name}: ${pending} pending, ${processing} processing`);
      },
    });
    context.print(statusDocument({ pending: 0, processing: 0 }), () => `${name} is complete`);
    return 0;
  });

export const recover: Run = (context, [name], flags) =>
  withBackend(context, flags, async (backend) => {
    const staleMs = milliseconds(flags, "stale");
    const { signal } = context;
    const recovered = await backend.recover(name!, {
      signal,
      ...(staleMs === undefined ? {} : { staleMs }),
    });
    if (recovered.length === 0) signal.throwIfAborted();
    context.print(
      {
        schema: "agentq.queue-recover/1",
        queue: name,
        recovered: recovered.length,
        messages: recovered.map(({ id, why, outcome }) => ({ id, why, outcome })),
      },
      () => String(recovered.length),
    );
    return 0;
  });
