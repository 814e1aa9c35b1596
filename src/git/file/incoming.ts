/**
 * The objects of one push, on their way from where nobody looks to where everybody sees them: in temporary
 * files, or in quarantine where hooks look at them first, or at once.
 */
import { closeSync, openSync } from "node:fs";
import { ioError } from "../../platform/durable.ts";
import { syncElsewhere } from "../../platform/sync-elsewhere.ts";
import type { Enumerated } from "../enumerate.ts";
import { type StagedPack, stagePack, type StoreOptions, storePack } from "../pack-store.ts";
import type { ObjectReader } from "../types.ts";
import type { HeldRepository } from "./hold.ts";
import { isVanished, persistently, releasePack } from "./keep.ts";
import { openQuarantine, type Quarantine } from "./quarantine.ts";
import type { PreparedRefs } from "./ref-transaction.ts";

export interface Incoming {
  /** Writes them to temporary files, and syncs these while `meanwhile` is done. @throws what that throws */
  stage(meanwhile: () => Promise<void>): Promise<void>;
  /** Writes them into quarantine; gives the environment in which hooks see them there. */
  isolate(): Readonly<Record<string, string>>;
  /** Takes them out of quarantine, where they are in one, durably. */
  admit(): void;
  /** They are durable and seen by everybody afterwards; what `refs` move to may be so with them. */
  settle(refs: PreparedRefs): Promise<void>;
  /** Removes what nobody has seen, and lets go of the rest: gc may judge it by itself. */
  close(): void;
}

/**
 * @param objects a reader of all in `list`, which is what the origin lacks
 * @param shown the object directory's own path, for hooks
 */
export function incomingObjects(
  { objectsDirectory, packDirectory }: Pick<HeldRepository, "objectsDirectory" | "packDirectory">,
  objects: ObjectReader,
  list: readonly Enumerated[],
  options: StoreOptions & { readonly shown: string },
): Incoming {
  const { shown, ...storing } = options;
  let staged: StagedPack | null = null;
  let quarantine: Quarantine | null = null;
  const kept: string[] = [];
  /** True once they are where they are to be, or there are none. */
  let settled = list.length === 0;
  const store = (directory: string) =>
    persistently(() => storePack(directory, objects, list, storing));

  function admit(): void {
    if (quarantine === null) return;
    const waiting = quarantine;
    try {
      kept.push(...waiting.migrate());
    } catch (error) {
      if (!isVanished(error)) throw error;
      waiting.discard();
      kept.push(store(packDirectory)!);
    }
    quarantine = null;
    settled = true;
  }

  return {
    async stage(meanwhile) {
      if (!settled) {
        staged = persistently(() => stagePack(packDirectory, objects, list, storing));
      }
      const synced = syncElsewhere((staged?.fds ?? []).map((fd) => ({ fd })));
      const [, done] = await Promise.allSettled([synced, meanwhile()]);
      if (done.status === "rejected") throw done.reason;
      assertSynced(packDirectory, await synced);
    },
    isolate() {
      if (settled) return {};
      quarantine = persistently(() => {
        const fresh = openQuarantine(objectsDirectory, shown);
        storePack(fresh.packDirectory, objects, list, storing);
        return fresh;
      });
      return quarantine.env;
    },
    admit,
    async settle(refs) {
      admit();
      if (settled) return;
      settled = true;
      if (staged === null) {
        kept.push(store(packDirectory)!);
        return;
      }
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
        const fds = [directory, ...refs.stage()];
        assertSynced(packDirectory, await syncElsewhere(fds.map((fd) => ({ fd }))));
      } finally {
        closeSync(directory);
      }
    },
    close() {
      staged?.discard();
      quarantine?.discard();
      for (const pack of kept) releasePack(pack);
    },
  };
}

function assertSynced(packDirectory: string, errors: readonly unknown[]): void {
  const error = errors.find((one) => one !== null);
  if (error !== undefined) throw ioError("store a pack in", packDirectory, error);
}
