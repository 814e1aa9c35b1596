/**
 * The compare-and-swap on an origin of this file system, in the order of git's receive-pack:
 *
 *   values as named? ──no──▶ lost
 *     │ yes
 *   receive.* settings ──no──▶ refused
 *     │
 *   without hooks:  lock refs and compare ─▶ store objects durably ─▶ move refs
 *   with `ready`:   write objects, to where nobody looks ─▶ `ready` ─▶ the same, with those objects
 *   with hooks:     objects into quarantine ─▶ pre-receive ─▶ update, each ref ─▶ lock refs and compare
 *                   ─▶ objects out of quarantine, durably ─▶ reference-transaction prepared ─▶ move refs
 *     │
 *   reference-transaction committed, post-receive, post-update: can't refuse any more
 *
 * Until the first rename nothing is visible; a push that ends before it leaves no object either.
 */
import { throwIfAborted } from "../../platform/clock.ts";
import { showLife } from "../../platform/life.ts";
import type { GitConfig } from "../config.ts";
import { ZERO_OID } from "../oid.ts";
import { tidyPacks } from "../pack-tidy.ts";
import type { Repository } from "../repository.ts";
import { sharedRepositoryMode } from "../shared-repository.ts";
import type { ObjectReader, PushOptions, PushOutcome, RefUpdate } from "../types.ts";
import { type HeldRepository, holdRepository, type Place } from "./hold.ts";
import {
  hasHook,
  heldHooksDirectory,
  type HookHost,
  type HookOutcome,
  hooksDirectory,
  runHook,
} from "./hooks.ts";
import { incomingObjects } from "./incoming.ts";
import { releaseOrphans } from "./keep.ts";
import { buryDead, endLife } from "./orphans.ts";
import { newLockText } from "./ref-lock.ts";
import { type PreparedRefs, prepareRefs, type RefHost } from "./ref-transaction.ts";
import { sharedBits } from "./shared-directory.ts";
import { checkUpdates, vetPush } from "./vet.ts";

const REFUSING_HOOKS = ["pre-receive", "update", "reference-transaction"];

/**
 * See {@link PushOutcome}. An origin that is moved away or replaced meanwhile gets nothing of it that can be seen,
 * and nothing is left in it; where that happened after the refs had begun to move, the outcome is unknown.
 * @param origin as opened at `place`
 * @throws `origin-unreachable`, `repository-foreign`, `ref-locked`, `object-missing`, `io-error`, `interrupted`
 */
export async function pushToFile(
  origin: Repository,
  place: Place,
  updates: readonly RefUpdate[],
  from: ObjectReader,
  options: PushOptions,
): Promise<PushOutcome> {
  throwIfAborted(options.signal);
  checkUpdates(updates);
  const held = holdRepository(origin, place);
  try {
    return await pushToHeld(origin, held, updates, from, options);
  } catch (error) {
    throw held.named(error);
  } finally {
    held.close();
  }
}

async function pushToHeld(
  origin: Repository,
  held: HeldRepository,
  updates: readonly RefUpdate[],
  from: ObjectReader,
  options: PushOptions,
): Promise<PushOutcome> {
  const said: string[] = [];
  /** A refusal is final: it must not be for what a path that leads elsewhere by now seemed to say. */
  const refuse = (reason: string, culprit?: string): PushOutcome => {
    held.check();
    return refused(updates, held.named(reason), said.join(""), culprit);
  };
  const vetted = vetPush(origin, held, updates, from, options);
  if (vetted.status === "lost") return lost(vetted.refs);
  if (vetted.status === "refused") return refuse(vetted.reason, vetted.culprit);

  const { config, list, objects } = vetted;
  const hooksPath = config.getPath("core.hooksPath");
  const hooks: HookHost = {
    gitDir: origin.gitDir,
    hooksDir: hooksDirectory(origin.gitDir, origin.commonDir, hooksPath),
    heldHooksDir: heldHooksDirectory(held.gitDir, held.commonDir, hooksPath),
  };
  const guarded = REFUSING_HOOKS.some((name) => hasHook(hooks, name));
  const sharedMode = sharedRepositoryMode(config);
  const { commonDir, packDirectory } = held;
  const share = (mode: number) => sharedMode ? sharedBits(mode, sharedMode) : mode;
  const life = showLife(commonDir, share);
  const incoming = incomingObjects(held, objects, list, {
    shown: origin.objects.directory,
    sharedMode,
    keep: newLockText(life).text,
  });
  let prepared: PreparedRefs | null = null;
  let failed = false;
  let tidied = false;

  /** Runs a hook that may refuse; gives why it does. */
  const ask = async (
    name: string,
    request: { args?: readonly string[]; input?: string; env?: Readonly<Record<string, string>> },
  ): Promise<string | null> => {
    const outcome = await runHook(hooks, name, { ...request, signal: options.signal });
    note(said, outcome);
    held.check();
    return outcome.ran && !outcome.ok ? outcome.problem : null;
  };

  try {
    // No lock is held meanwhile, since it may take its time.
    if (options.ready) await (guarded ? options.ready() : incoming.stage(options.ready));
    held.check();
    if (guarded) {
      const declined = await ask("pre-receive", { input: lines(updates), env: incoming.isolate() });
      if (declined) return refuse(declined);
      if (hasHook(hooks, "update")) {
        // Git takes the objects out of quarantine before it runs this hook.
        incoming.admit();
        for (const { ref, old, new: oid } of updates) {
          const no = await ask("update", { args: [ref, old ?? ZERO_OID, oid] });
          if (no) return refuse(no, ref);
        }
      }
    }
    const refs = refHost(origin, held, config, sharedMode);
    const preparation = await prepareRefs(refs, updates, { signal: options.signal, life });
    if (preparation.status === "lost") return lost(preparation.refs);
    if (preparation.status === "conflict") {
      return refuse(`can't be created: ${preparation.reason}`, preparation.ref);
    }
    prepared = preparation;
    held.check();
    await incoming.settle(prepared);
    if (guarded) {
      const input = lines(updates);
      const no = await ask("reference-transaction", { args: ["prepared"], input });
      if (no) {
        prepared.release();
        prepared = null;
        note(said, await runHook(hooks, "reference-transaction", { args: ["aborted"], input }));
        return refuse(no);
      }
    }
    throwIfAborted(options.signal);
    held.check();
    const transaction = prepared;
    prepared = null;
    const half = transaction.commit();
    if (half) {
      return {
        status: "unknown",
        message: `${half.moved} of ${updates.length} refs moved before writing failed`,
        cause: held.named(half.cause),
      };
    }
    buryDead(commonDir, packDirectory, life);
  } catch (error) {
    failed = true;
    throw error;
  } finally {
    try {
      prepared?.release();
      incoming.close();
      tidied = !failed;
    } finally {
      if (life) endLife(life, commonDir, packDirectory, tidied);
    }
  }
  try {
    held.check();
  } catch (cause) {
    // The refs moved in the repository that was held. Whether those who look by its path find it so, time will tell.
    return { status: "unknown", message: (cause as Error).message, cause };
  }
  await runAfterHooks(hooks, updates);
  try {
    if (list.length > 0) {
      releaseOrphans(packDirectory, commonDir);
      tidyPacks(packDirectory, sharedMode);
    }
  } catch {
    // The push is done; a disk that can't be tidied will say so at the next one.
  }
  return { status: "won" };
}

function refHost(
  origin: Repository,
  held: HeldRepository,
  config: GitConfig,
  sharedMode: number,
): RefHost {
  const setting = config.get("core.logAllRefUpdates")?.toLowerCase();
  const always = setting === "always";
  const some = always ||
    (setting === undefined || setting === null
      ? !origin.bare
      : config.getBoolean("core.logAllRefUpdates") ?? false);
  return {
    commonDir: held.commonDir,
    refsDirectory: held.refsDirectory,
    sharedMode,
    logs: (ref) =>
      always || (some && (ref === "HEAD" || /^refs\/(heads|remotes|notes)\//.test(ref))),
    identity: () => {
      const clean = (text: string | null) => text?.replace(/[<>\n\0]/g, "").trim();
      const name = clean(config.get("user.name")) || "agentq";
      return `${name} <${clean(config.get("user.email")) || "agentq@localhost"}>`;
    },
  };
}

const lines = (updates: readonly RefUpdate[]) =>
  updates.map(({ ref, old, new: oid }) => `${old ?? ZERO_OID} ${oid} ${ref}\n`).join("");

function note(said: string[], outcome: HookOutcome): void {
  if (outcome.ran) said.push(outcome.output);
}

/** Hooks that only learn what has happened; what they exit with changes nothing. */
async function runAfterHooks(hooks: HookHost, updates: readonly RefUpdate[]): Promise<void> {
  const input = lines(updates);
  await runHook(hooks, "reference-transaction", { args: ["committed"], input });
  await runHook(hooks, "post-receive", { input });
  await runHook(hooks, "post-update", { args: updates.map(({ ref }) => ref) });
}

function lost(refs: readonly string[]): PushOutcome {
  return { status: "lost", message: `${refs.join(", ")} moved meanwhile`, refs };
}

/** `culprit` is the ref refused; without one all are. All or nothing, so the others don't move either. */
function refused(
  updates: readonly RefUpdate[],
  reason: string,
  remoteOutput: string,
  culprit?: string,
): PushOutcome {
  return {
    status: "refused",
    message: culprit ? `${culprit}: ${reason}` : reason,
    remoteOutput,
    refs: updates
      .filter(({ ref }) => culprit === undefined || ref === culprit)
      .map(({ ref }) => ({ ref, reason })),
  };
}
