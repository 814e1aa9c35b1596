/**
 * Refs that a server takes from who pushes and doesn't show to who reads (`uploadpack.hideRefs`). A queue
 * rests on reading what it has pushed, so a push that makes such a ref is refused by name.
 *
 *   won, refs made ──▶ read them ── all shown ──────────────────────────────────▶ won
 *                          │ not shown, for `shownMs`; git-receive-pack lists it
 *                          └──▶ taken back ──────────────────────────────────────▶ refused
 *   refused, refs to be made ──▶ git-receive-pack lists one that isn't shown ───▶ refused, by that reason
 *
 * Whether a ref will be shown can't be asked: there is no telling before the first one was made. A server
 * whose readers are late (replicas, caches) shows it in the end, hence the wait.
 */
import { abortReason, systemClock } from "../../platform/clock.ts";
import { ZERO_OID } from "../oid.ts";
import type { ObjectReader, Oid, Origin, PushOptions, PushOutcome, RefUpdate } from "../types.ts";

export interface ShownWire {
  readonly refs: Origin["refs"];
  /** What the server's git-receive-pack lists, asked anew; null where it lists nothing. */
  listed(signal?: AbortSignal): Promise<ReadonlyMap<string, Oid> | null>;
  /** One push. A ref whose new value is the zero id is deleted. */
  push(
    updates: readonly RefUpdate[],
    objects: ObjectReader,
    options: PushOptions,
  ): Promise<PushOutcome>;
}

/** How long a ref that was made may be missing from the lists, in milliseconds: as `wait` bears it. */
export const SHOWN_MS = 10_000;

const REASON =
  "the server takes this ref and hides it from readers (uploadpack.hideRefs, or transfer.hideRefs with an exception for pushes)";
const ASK =
  "Ask who runs it to let readers see these refs too (there: git config --get-all uploadpack.hideRefs), " +
  "or keep the queue in refs that are shown: --namespace refs/heads/agentq.";

/** The refusal of refs that readers aren't shown. `left`: what was pushed is still there. */
export function hiddenFromReaders(refs: readonly string[], left = false): PushOutcome {
  return {
    status: "refused",
    message: `${refs[0]}: ${REASON}`,
    remoteOutput: "",
    refs: refs.map((ref) => ({ ref, reason: REASON })),
    hint: left
      ? `${ASK} What was pushed could not be taken back: it stands there, for them to remove.`
      : `${ASK} Nothing was changed.`,
  };
}

/**
 * See {@link PushOutcome}; what it makes is shown to readers, else the push is refused.
 * @throws what `wire.push` throws
 */
export async function pushShown(
  wire: ShownWire,
  updates: readonly RefUpdate[],
  objects: ObjectReader,
  options: PushOptions,
  shownMs = SHOWN_MS,
): Promise<PushOutcome> {
  const outcome = await wire.push(updates, objects, options);
  const made = updates.filter(({ old }) => old === null).map(({ ref }) => ref);
  if (made.length === 0) return outcome;
  const { signal } = options;
  if (outcome.status === "refused") {
    // What the report said holds, also where nothing more can be asked.
    const hidden = await unseen(wire, made, 0, signal).catch(() => []);
    return hidden.length > 0 ? hiddenFromReaders(hidden) : outcome;
  }
  // Of refs that moved in the same push nothing could be taken back, and they were seen.
  if (outcome.status !== "won" || made.length < updates.length) return outcome;
  let hidden: string[];
  try {
    hidden = await unseen(wire, made, shownMs, signal);
  } catch (cause) {
    if (!signal?.aborted) return outcome;
    return { status: "unknown", message: "stopped before what was pushed was seen", cause };
  }
  if (hidden.length === 0) return outcome;
  const undo = updates.map((update) => ({ ...update, old: update.new, new: ZERO_OID }));
  const undone = await wire.push(undo, objects, options).catch(() => null);
  return hiddenFromReaders(hidden, undone?.status !== "won");
}

/** Those of `refs` that readers aren't shown within `forMs`, and git-receive-pack lists. */
async function unseen(
  wire: ShownWire,
  refs: readonly string[],
  forMs: number,
  signal: AbortSignal | undefined,
): Promise<string[]> {
  const end = systemClock.monotonic() + forMs;
  for (let pause = 100;; pause = Math.min(2 * pause, 2_000)) {
    if (signal?.aborted) throw abortReason(signal);
    const seen = (await wire.refs(refs, signal)).refs;
    const missing = refs.filter((ref) => !seen.has(ref));
    if (missing.length === 0) return [];
    const left = end - systemClock.monotonic();
    if (left <= 0) {
      const listed = await wire.listed(signal);
      return missing.filter((ref) => listed?.has(ref));
    }
    await systemClock.sleep(Math.min(pause, left), signal);
  }
}
