/** `queue fs read|write|ls`: queues by their control paths. */
import { controlPath, queueFs } from "../../../src/queuefs/control.ts";
import type { CommandModule } from "../../spec.ts";
import {
  deliverable,
  inputBytes,
  milliseconds,
  ownerOf,
  printLines,
  withBackend,
} from "./common.ts";
import { safeJson, shownName } from "../../output/escape.ts";
import { writeOut } from "../../output/write.ts";

type Run = CommandModule["run"];

export const read: Run = (context, [path], flags) =>
  withBackend(context, flags, async (backend) => {
    const fs = queueFs(backend, { owner: ownerOf(flags), leaseMs: milliseconds(flags, "lease")! });
    const print = (content: Uint8Array) =>
      writeOut(`${safeJson(JSON.parse(new TextDecoder().decode(content)))}\n`);
    const { queue, operation } = controlPath(path!);
    if (operation !== "dequeue") {
      print(await fs.read(path!));
      return 0;
    }
    const ids = (content: Uint8Array): string[] => {
      const { id } = JSON.parse(new TextDecoder().decode(content));
      return id === undefined ? [] : [id];
    };
    await deliverable(context, {
      backend,
      queue,
      take: () => fs.read(path!),
      print,
      giveBack: async (content) => {
        const receipts = ids(content).map((id) => ({ id, owner: ownerOf(flags) }));
        if (receipts.length > 0) await backend.requeue(queue, receipts, { counted: false });
      },
      ids,
    });
    return 0;
  });

export const write: Run = (context, [path, given], flags) =>
  withBackend(context, flags, async (backend) => {
    const fs = queueFs(backend, { owner: ownerOf(flags) });
    const data = path!.replace(/\/$/, "").endsWith("/clear") && given === undefined
      ? new Uint8Array()
      : await inputBytes(context, given);
    const answer = await fs.write(path!, data);
    context.print({ schema: "agentq.queue-write/1", path, answer }, () => answer);
    return 0;
  });

export const ls: Run = (context, [path], flags) =>
  withBackend(context, flags, async (backend) => {
    const entries = await queueFs(backend).readdir(path ?? "/");
    if (context.json) {
      printLines(context, entries.map((entry) => ({ schema: "agentq.queue-entry/1", ...entry })));
    } else {
      context.print(
        null,
        () =>
          entries.map(({ name, isDirectory }) => `${shownName(name)}${isDirectory ? "/" : ""}`)
            .join("\n"),
      );
    }
    return 0;
  });
