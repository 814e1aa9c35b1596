/** `agentq store init|check|unlock|gc`: the v2 store itself. */
import { join } from "node:path";
import { AgentqError } from "../../src/errors.ts";
import { absolutePath } from "../../src/platform/directory.ts";
import { initStore, openStore, unlockStore } from "../../src/store/mod.ts";
import type { Context } from "../context.ts";
import { escapeLine } from "../output/escape.ts";
import type { CommandModule, Flags } from "../spec.ts";
import { asStateUnavailable } from "../state.ts";

/** `--store DIR`, else the one under the state directory that `agentq queue` uses. */
function storeRoot(context: Context, flags: Flags): string {
  return absolutePath(
    typeof flags.store === "string" ? flags.store : join(context.stateDirectory, "store"),
  );
}

function recoverStale(flags: Flags): { recoverStale: boolean } | Record<string, never> {
  return flags["recover-stale"] === true ? { recoverStale: true } : {};
}

export const init: CommandModule = {
  async run(context, _args, flags) {
    const report = await initStore(storeRoot(context, flags), {
      allowOpenModes: flags["allow-open-modes"] === true,
      resumeAfterInspection: flags["resume-after-inspection"] === true,
    }).catch((error) => {
      throw flags.store === undefined ? asStateUnavailable(context.stateDirectory, error) : error;
    });
    const { root, storeId, movedAside } = report;
    context.print(
      { schema: "agentq.store-init/1", ...report },
      () =>
        `store ${storeId} in ${escapeLine(root)}` +
        (movedAside === null ? "" : `\nwhat was there is now in ${escapeLine(movedAside)}`),
    );
    return 0;
  },
};

export const check: CommandModule = {
  async run(context, _args, flags) {
    const store = await openStore(storeRoot(context, flags));
    const report = await store.check();
    context.print({ schema: "agentq.store-check/1", root: store.root, ...report }, () => {
      const counts = `revision ${report.revision}, ${report.slots} messages, ` +
        `${report.failed} dead letters, ${report.orphans} orphans, ${report.stateBytes} bytes of state`;
      const findings = report.findings.map(({ level, path, message }) =>
        escapeLine(`${level}: ${path}: ${message}`)
      );
      return [`store ${store.storeId} in ${escapeLine(store.root)}`, counts, ...findings].join(
        "\n",
      );
    });
    return report.sound ? 0 : 1;
  },
};

export const unlock: CommandModule = {
  async run(context, _args, flags) {
    const ownerToken = flags["owner-token"];
    const iHaveChecked = flags["i-have-checked"] === true;
    const root = storeRoot(context, flags);
    if (typeof ownerToken === "string" && !iHaveChecked) {
      throw new AgentqError("usage", "--owner-token needs --i-have-checked", {
        hint: "It removes that lock without proof: make sure first that no process uses the store.",
      });
    }
    const report = await unlockStore(root, {
      iHaveChecked,
      ...(typeof ownerToken === "string" ? { ownerToken } : {}),
    });
    context.print(
      { schema: "agentq.store-unlock/1", root, ...report },
      () =>
        report.removed.length === 0
          ? "there is no lock"
          : report.removed.map(({ path, ownerToken }) =>
            `removed ${escapeLine(path)} (${ownerToken})`
          )
            .join("\n"),
    );
    return 0;
  },
};

export const gc: CommandModule = {
  async run(context, _args, flags) {
    const store = await openStore(storeRoot(context, flags), recoverStale(flags));
    const report = await store.gc();
    context.print(
      { schema: "agentq.store-gc/1", root: store.root, ...report },
      () =>
        [
          `removed ${report.objects} objects and ${report.files} other files`,
          ...report.left.map((why) => escapeLine(`left: ${why}`)),
        ].join("\n"),
    );
    return 0;
  },
};
