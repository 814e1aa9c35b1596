import { heldReference, makeClaim, makeReceipt, stale } from "../claims.ts";
import { assertEncoding } from "../encoding.ts";
import { payloadBytes } from "../payload.ts";
import { setSlot } from "../state.ts";
import { type StoreContext, transact } from "../transaction.ts";
import type { Claim, Json, PreparedPayload, Reference } from "../types.ts";

/**
 * Replaces a claim's payload; the generation and the delivery stay. `fn` runs outside the lock on the
 * bytes that the claim holds already, so nothing can pull them away.
 */
export async function migrate(
  context: StoreContext,
  claim: Claim,
  fn: (payload: Json, claim: Claim) => Json | PreparedPayload | Promise<Json | PreparedPayload>,
  options: { encoding?: string } = {},
): Promise<Claim> {
  assertEncoding(options.encoding);
  const migrated = await fn(claim.json(), claim);
  const bytes = payloadBytes(migrated, context.limits.maxPayloadBytes);
  return await transact(context, (transaction) => {
    const { receipt } = claim;
    const held = heldReference(transaction.state, receipt);
    if (held.object !== receipt.object) throw stale(receipt, "its payload was migrated meanwhile");
    transaction.change();
    const claimed: Reference = {
      ...held,
      object: transaction.addObject(bytes),
      ...(options.encoding === undefined ? {} : { encoding: options.encoding }),
    };
    transaction.releaseObject(held.object);
    setSlot(transaction.state, receipt.queue, receipt.id, { claimed });
    const { queue, id } = receipt;
    const { storeId } = context;
    return makeClaim(
      makeReceipt(storeId, queue, id, claimed, transaction.revision),
      claimed,
      bytes,
    );
  });
}
