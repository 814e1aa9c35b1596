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
import { closeSync, openSync } from "node:fs";
import { AgentqError, isAgentqError } from "../../errors.ts";
import { throwIfAborted } from "../../platform/clock.ts";
import { ioError } from "../../platform/durable.ts";
import { showLife } from "../../platform/life.ts";
import { syncElsewhere } from "../../platform/sync-elsewhere.ts";
import { type GitConfig, openConfig } from "../config.ts";
import { parseConfig } from "../config-file.ts";
import { readConfigFile } from "../config-sources.ts";
import { sharedRepositoryMode } from "../shared-repository.ts";
import { enumerate, type Enumerated } from "../enumerate.ts";
import { refusedByFsck } from "../fsck/check.ts";
import { isOid, ZERO_OID } from "../oid.ts";
import { refuseForeignOrigin } from "../ownership.ts";
import { type StagedPack, stagePack, storePack } from "../pack-store.ts";
import { tidyPacks } from "../pack-tidy.ts";
import { checkRefName } from "../ref-name.ts";
import { listRefs } from "../refs.ts";
import type { Repository } from "../repository.ts";
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
import { isVanished, persistently, releaseOrphans, releasePack } from "./keep.ts";
import { buryDead, endLife } from "./orphans.ts";
import { openQuarantine, type Quarantine } from "./quarantine.ts";
import { hiddenUpdate, refusedByPolicy, tooLarge } from "./receive-policy.ts";
import { newLockText } from "./ref-lock.ts";
import { movedRefs, type PreparedRefs, prepareRefs, type RefHost } from "./ref-transaction.ts";
import { sharedBits } from "./shared-directory.ts";

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
  /** A refusal is final: it must not be for what a path that leads elsewhere by now seemed to say. */
  const refuse = (reason: string, remoteOutput: string, culprit?: string): PushOutcome => {
    held.check();
    return refused(updates, held.named(reason), remoteOutput, culprit);
  };
  // Read anew each time: an operator's change must not wait for a watching lander to end.
  const config = currentConfig(origin, held);
  const { workTree, gitDir, bare } = origin;
  refuseForeignOrigin(
    { workTree, gitDir, commonDir: origin.commonDir, config },
    process.env,
  );
  const both = union(from, origin.objects);
  // Before anything is called lost: what is hidden when it is read could never be won.
  const hidden = hiddenUpdate(config, updates);
  if (hidden) return refuse(hidden.reason, "", hidden.ref);
  const moved = movedRefs(held.commonDir, updates);
  if (moved.length > 0) return lost(moved);
  const policy = refusedByPolicy({ ...held, bare }, config, updates, both);
  if (policy) return refuse(policy.reason, "", policy.ref);

  const list = newObjects(origin, held, both, updates, options);
  // The origin's own come first, which is where git looks too: a clone may have to fetch them.
  const checked = union(origin.objects, from);
  const malformed = refusedByFsck({ config, gitDir: origin.gitDir, objects: checked, list });
  if (malformed) return refuse(malformed, "");
  const large = tooLarge(config, both, list);
  if (large) return refuse(large, "");

  const hooksPath = config.getPath("core.hooksPath");
  const hooks: HookHost = {
    gitDir: origin.gitDir,
    hooksDir: hooksDirectory(origin.gitDir, origin.commonDir, hooksPath),
    heldHooksDir: heldHooksDirectory(held.gitDir, held.commonDir, hooksPath),
  };
  const sharedMode = sharedRepositoryMode(config);
  const refs = refHost(origin, held, config, sharedMode);
  const { commonDir, objectsDirectory, packDirectory } = held;
  const guarded = REFUSING_HOOKS.some((name) => hasHook(hooks, name));
  const said: string[] = [];
  const kept: string[] = [];
  const share = (mode: number) => sharedMode ? sharedBits(mode, sharedMode) : mode;
  const life = showLife(commonDir, share);
  const { text: keep } = newLockText(life);
  const store = (directory: string) =>
    persistently(() => storePack(directory, both, list, { sharedMode, keep }));
  /** Objects that were let in move to where everybody sees them. */
  const admit = (waiting: Quarantine) => {
    try {
      kept.push(...waiting.migrate());
    } catch (error) {
      if (!isVanished(error)) throw error;
      waiting.discard();
      kept.push(store(packDirectory)!);
    }
    quarantine = null;
  };
  let quarantine: Quarantine | null = null;
  let staged: StagedPack | null = null;
  let prepared: PreparedRefs | null = null;
  let failed = false;
  let tidied = false;

  /** Runs a hook that may refuse. */
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
    if (options.ready) {
      // No lock is held meanwhile, since it may take its time.
      const pack = guarded || list.length === 0
        ? null
        : persistently(() => stagePack(packDirectory, both, list, { sharedMode, keep }));
      staged = pack;
      const synced = syncElsewhere((pack?.fds ?? []).map((fd) => ({ fd })));
      await Promise.allSettled([synced, options.ready()]).then(([, ready]) => {
        if (ready.status === "rejected") throw ready.reason;
      });
      assertSynced(packDirectory, await synced);
    }
    held.check();
    if (guarded) {
      if (list.length > 0) {
        quarantine = persistently(() => {
          const fresh = openQuarantine(objectsDirectory, origin.objects.directory);
          storePack(fresh.packDirectory, both, list, { sharedMode, keep });
          return fresh;
        });
      }
      const declined = await ask("pre-receive", {
        input: lines(updates),
        env: quarantine?.env ?? {},
      });
      if (declined) return refuse(declined, said.join(""));
      if (hasHook(hooks, "update")) {
        // Git takes the objects out of quarantine before it runs this hook.
        if (quarantine) admit(quarantine);
        for (const { ref, old, new: oid } of updates) {
          const no = await ask("update", { args: [ref, old ?? ZERO_OID, oid] });
          if (no) return refuse(no, said.join(""), ref);
        }
      }
    }
    const preparation = await prepareRefs(refs, updates, { signal: options.signal, life });
    if (preparation.status === "lost") return lost(preparation.refs);
    if (preparation.status === "conflict") {
      const reason = `can't be created: ${preparation.reason}`;
      return refuse(reason, said.join(""), preparation.ref);
    }
    prepared = preparation;
    held.check();
    if (quarantine) admit(quarantine);
    else if (staged) {
      const pack = staged;
      staged = null;
      try {
        kept.push(pack.install({ syncDirectory: false }));
      } catch (error) {
        if (!isVanished(error)) throw error;
        kept.push(store(packDirectory)!);
      }
      const directory = openSync(packDirectory, "r");
      try {
        const fds = [directory, ...prepared.stage()];
        assertSynced(packDirectory, await syncElsewhere(fds.map((fd) => ({ fd }))));
      } finally {
        closeSync(directory);
      }
    } else if (!guarded && list.length > 0) kept.push(store(packDirectory)!);
    if (guarded) {
      const input = lines(updates);
      const no = await ask("reference-transaction", { args: ["prepared"], input });
      if (no) {
        prepared.release();
        prepared = null;
        note(said, await runHook(hooks, "reference-transaction", { args: ["aborted"], input }));
        return refuse(no, said.join(""));
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
      staged?.discard();
      quarantine?.discard();
      for (const pack of kept) releasePack(pack);
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

function assertSynced(packDirectory: string, errors: readonly unknown[]): void {
  const error = errors.find((one) => one !== null);
  if (error !== undefined) throw ioError("store a pack in", packDirectory, error);
}

function checkUpdates(updates: readonly RefUpdate[]): void {
  const names = new Set<string>();
  for (const { ref, old, new: oid } of updates) {
    checkRefName(ref);
    if (names.has(ref)) throw new AgentqError("internal", `A push names ${ref} twice.`);
    names.add(ref);
    if (!isOid(oid) || oid === ZERO_OID || (old !== null && !isOid(old))) {
      throw new AgentqError("internal", `A push of ${ref} has a malformed id.`);
    }
  }
}

function currentConfig(origin: Repository, held: HeldRepository): GitConfig {
  const { gitDir, commonDir } = origin;
  const path = `${commonDir}/config`;
  const local = parseConfig(readConfigFile(`${held.commonDir}/config`) ?? "", path);
  const worktreeConfig = origin.config.getBoolean("extensions.worktreeConfig") ?? false;
  const branch = () => origin.refs.read("HEAD")?.target ?? null;
  return openConfig({ repository: { gitDir, commonDir, worktreeConfig, branch, local } });
}

/** What the origin lacks. Reading both sides, a shallow or partial clone is no hindrance. */
function newObjects(
  origin: Repository,
  held: HeldRepository,
  both: ObjectReader,
  updates: readonly RefUpdate[],
  options: PushOptions,
): Enumerated[] {
  const claimed = options.remoteHas ?? listRefs(held, ["refs/heads/"]).map(({ oid }) => oid);
  const olds = updates.flatMap(({ old }) => old ?? []);
  const haves = [...new Set([...claimed, ...olds])].filter((oid) => origin.objects.has(oid));
  return [...enumerate(both, updates.map((update) => update.new), haves)];
}

function union(first: ObjectReader, second: ObjectReader): ObjectReader {
  const either = <T>(read: (reader: ObjectReader) => T): T => {
    try {
      return read(first);
    } catch (error) {
      if (!isAgentqError(error, "object-missing")) throw error;
      try {
        return read(second);
      } catch (again) {
        throw isAgentqError(again, "object-missing") ? error : again;
      }
    }
  };
  return {
    read: (oid) => either((reader) => reader.read(oid)),
    stat: (oid) => either((reader) => reader.stat(oid)),
    has: (oid) => first.has(oid) || second.has(oid),
  };
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
