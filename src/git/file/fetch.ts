/** Fetching from an origin on the same machine: what is missing is copied from store to store. */
import { AgentqError } from "../../errors.ts";
import { throwIfAborted } from "../../platform/clock.ts";
import { enumerate, type Enumerated } from "../enumerate.ts";
import { storePack } from "../pack-store.ts";
import { tidyPacks } from "../pack-tidy.ts";
import type { FetchOptions, FetchTarget, ObjectReader, Oid } from "../types.ts";

/** Copies `wants` and all they reach into `into`, as one pack that is durable on return. */
export function copyObjects(
  origin: ObjectReader,
  wants: readonly Oid[],
  into: FetchTarget,
  options: FetchOptions,
): void {
  throwIfAborted(options.signal);
  for (const oid of wants) {
    if (!origin.has(oid)) {
      throw new AgentqError("object-missing", `The origin does not have ${oid}.`, {
        details: { oid },
      });
    }
  }
  const haves = (options.haves ?? []).filter((oid) => into.has(oid));
  const missing: Enumerated[] = [];
  for (const item of enumerate(origin, wants, haves, into)) {
    if (!into.has(item.oid)) missing.push(item);
  }
  throwIfAborted(options.signal);
  const promisor = into.isPartial === true;
  if (storePack(into.packDirectory, origin, missing, { promisor }) === null) return;
  tidyPacks(into.packDirectory);
  into.refresh();
}
