/**
 * What a lander that holds the lock does next, decided from one snapshot and the control state alone.
 *
 *     paused? ──────────────────────────────▶ stop
 *     done: landed X on T, branch still T, publication never seen whole ─▶ roll the branch forward to X
 *     branch lacks the last landed commit ──▶ stop: branch-rewound
 *     no ticket after done's head ──────────▶ stop: nothing to do
 *     branch already at what ticket n gives ─▶ record n as landed
 *     n cancelled ──────────────────────────▶ record the cancellation
 *     branch at what one behind n gives ────▶ record both (pass-over.ts)
 *     otherwise ────────────────────────────▶ merge, gate, verify, publish
 *
 * The second and fifth line are the half states of a multi-ref update whose origin died between two of
 * its renames. A rewind to exactly T looks like the second; the lock chain tells them apart, since
 * every entry of ours after a publication that was seen whole says so (`confirmed`).
 */
import type { Oid } from "../git/types.ts";
import type { ChainReader, ResultEntry } from "./chain.ts";
import type { Control } from "./control.ts";
import { NO_TIP } from "./messages.ts";
import type { Snapshot } from "./snapshot.ts";

/** The last commit the queue landed, up to and including `done`; null when it never landed one. */
export async function lastLanded(
  chains: ChainReader,
  done: ResultEntry | null,
  signal?: AbortSignal,
): Promise<Oid | null> {
  for (let at = done; at !== null; at = await chains.before("done", at, signal)) {
    if (at.message.landed) return at.message.landed;
    const carried = at.message.agentq?.lastLanded;
    if (carried !== undefined) return carried;
  }
  return null;
}

/**
 * The commit to which the branch must be moved because the push that recorded it as landed was applied
 * by halves; null when there is no such state.
 */
export function unfinishedPublication(snapshot: Snapshot, control: Control): Oid | null {
  const { done, tip } = snapshot;
  const landed = done?.message.landed;
  if (!done || !landed || landed === tip) return null;
  if (done.message.tip !== (tip ?? NO_TIP)) return null;
  if (control.confirmed !== null && control.confirmed >= done.message.ticket) return null;
  return landed;
}

/** The tip that the operator accepted, until something was landed on it; null: none. */
export function acceptedTip({ done }: Pick<Snapshot, "done">, control: Control): Oid | null {
  const later = done !== null && done.message.landed &&
    done.message.ticket > (control.confirmed ?? -1);
  return later ? null : control.acceptedTip;
}

/** The commit that the branch must contain, `landed` or what was accepted since; null when there is none yet. */
export function anchorOf(
  snapshot: Pick<Snapshot, "done">,
  control: Control,
  landed: Oid | null,
): Oid | null {
  return acceptedTip(snapshot, control) ?? landed;
}

/**
 * True when the branch lacks what the queue last landed (or the tip that was accepted instead).
 * `contains` is asked only when the branch isn't exactly there.
 */
export async function isRewound(
  snapshot: Snapshot,
  control: Control,
  landed: Oid | null,
  contains: (commit: Oid, ancestor: Oid) => Promise<boolean>,
): Promise<boolean> {
  const anchor = anchorOf(snapshot, control, landed);
  if (anchor === null || anchor === snapshot.tip) return false;
  if (unfinishedPublication(snapshot, control) !== null) return false;
  if (snapshot.tip === null) return true;
  return !await contains(snapshot.tip, anchor);
}
