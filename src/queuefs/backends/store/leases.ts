/** Leases in the store: a note on each claimed reference, and tokens that name one claim. */
import * as z from "zod/mini";
import type { LeaseTime } from "../../clock.ts";
import type { Receipt } from "../../contract.ts";
import type { Lease } from "../../lease.ts";
import { ownsLease } from "../../owner.ts";
import type { Json, MessageInfo, Receipt as StoreReceipt, Store } from "../../../store/mod.ts";

const noteSchema = z.object({
  owner: z.string(),
  boot: z.number(),
  wall: z.number(),
  ms: z.number(),
});

export type LeaseNote = { [key: string]: Json };

/** The note that a claim carries while it is leased. */
export function leaseNote(owner: string, leaseMs: number, now: LeaseTime): LeaseNote {
  return { owner, boot: now.boot, wall: now.wall, ms: leaseMs };
}

/** The lease of a claim, or null where whoever claimed it keeps none. */
export function leaseOf(message: MessageInfo): Lease & { owner: string } | null {
  const note = noteSchema.safeParse(message.reference.owner);
  if (!note.success) return null;
  const { owner, boot, wall, ms } = note.data;
  return { owner, grantedBoot: boot, grantedWall: wall, lengthMs: ms };
}

const seenSchema = z.strictObject({ seen: z.number() });

/** The note on a claim without any, of which nothing tells since when it is one: when it was seen first. */
export function seenNote(now: LeaseTime): LeaseNote {
  return { seen: now.wall };
}

/** The lease that is assumed for such a claim; null for one that wasn't seen yet, or has another's note. */
export function seenLease(message: MessageInfo): Lease | null {
  const note = seenSchema.safeParse(message.reference.owner);
  if (!note.success) return null;
  return { owner: null, grantedBoot: null, grantedWall: note.data.seen, lengthMs: null };
}

/** In whose name a claim with that note is held; empty where it keeps no lease. */
export function noteOwner(note: Json | null): string {
  const parsed = noteSchema.safeParse(note);
  return parsed.success ? parsed.data.owner : "";
}

/** GENERATION.OBJECT.DELIVERY.REVISION of the claim. */
export function leaseToken({ generation, object, delivery, revision }: StoreReceipt): string {
  return `${generation}.${object}.${delivery ?? 0}.${revision}`;
}

const TOKEN = /^([0-9a-f]{32})\.([0-9a-f]{32})\.(\d{1,15})\.(\d{1,39})$/;

/** The claim that a lease token names, to be checked by the store; null when it is no token. */
export function parseToken(
  store: Store,
  queue: string,
  id: string,
  token: string,
): StoreReceipt | null {
  const match = TOKEN.exec(token);
  if (match === null) return null;
  const [, generation, object, delivery, revision] = match as unknown as string[];
  return {
    storeId: store.storeId,
    queue,
    id,
    generation: generation!,
    object: object!,
    revision: revision!,
    delivery: Number(delivery),
  };
}

/** The store's receipts for ours, in their places; null where none is current. */
export async function findClaims(
  store: Store,
  queue: string,
  receipts: readonly Receipt[],
): Promise<(StoreReceipt | null)[]> {
  const byName = receipts.some((receipt) => "owner" in receipt)
    ? new Map((await store.messages({ queue, state: "claimed" })).map((each) => [each.id, each]))
    : null;
  const find = (receipt: Receipt): StoreReceipt | null => {
    if ("lease" in receipt) return parseToken(store, queue, receipt.id, receipt.lease);
    const held = byName!.get(receipt.id);
    const lease = held ? leaseOf(held) : null;
    return lease && ownsLease(lease.owner, receipt.owner) ? held!.receipt : null;
  };
  const seen = new Set<string>();
  return receipts.map((receipt) => {
    const claim = find(receipt);
    const name = claim && `${claim.id} ${claim.generation} ${claim.delivery}`;
    if (name === null || seen.has(name)) return null;
    seen.add(name);
    return claim;
  });
}

/** Of these receipts, those whose claim is current in the state as it is now. */
export async function stillHeld(
  store: Store,
  queue: string,
  receipts: readonly (StoreReceipt | null)[],
): Promise<(StoreReceipt | null)[]> {
  const held = new Map(
    (await store.messages({ queue, state: "claimed" })).map((each) => [each.id, each.receipt]),
  );
  return receipts.map((receipt) => {
    const now = receipt === null ? undefined : held.get(receipt.id);
    const same = now !== undefined && now.generation === receipt!.generation &&
      now.delivery === receipt!.delivery;
    return same ? receipt : null;
  });
}
