/** Commits that came along with others: kept as they are until they are asked for, the oldest go first. */
import { Buffer } from "node:buffer";
import type { Oid } from "../git/types.ts";

export interface Along {
  /** Hands over the content of `oid`, which is kept no longer; undefined where it didn't come along. */
  take(oid: Oid): Uint8Array | undefined;
  /** Of what arrived, keeps so many commits before `oid` along first parents, as far as they are there. */
  keepBefore(oid: Oid, arrived: ReadonlyMap<Oid, Uint8Array>, count: number): void;
}

/** Keeps up to `limit` bytes. */
export function createAlong(limit: number): Along {
  const kept = new Map<Oid, Uint8Array>();
  let total = 0;
  const take = (oid: Oid) => {
    const content = kept.get(oid);
    if (content !== undefined && kept.delete(oid)) total -= content.length;
    return content;
  };
  return {
    take,
    keepBefore(oid, arrived, count) {
      let at = firstParent(arrived.get(oid));
      for (let left = count; left > 0 && at !== undefined; left--) {
        const content = arrived.get(at);
        if (content === undefined) break;
        take(at);
        // Copied: what arrived may be a view of a whole pack.
        kept.set(at, new Uint8Array(content));
        total += content.length;
        at = firstParent(content);
      }
      for (const oldest of kept.keys()) {
        if (total <= limit) break;
        take(oldest);
      }
    },
  };
}

/** By its place, which it has in every commit that git takes for one. */
function firstParent(content: Uint8Array | undefined): Oid | undefined {
  const line = Buffer.from(content?.subarray(46, 94) ?? []).toString("latin1");
  return /^parent ([0-9a-f]{40})\n$/.exec(line)?.[1];
}
