/**
 * Collection: removes what the committed state can't reach, under the lock, after the state was made
 * to last. Never by age. What can't be removed stays; an orphan is better than a lost message.
 */
import { AgentqError } from "../errors.ts";
import { ioError } from "../platform/durable.ts";
import { admitDirectory } from "./admit.ts";
import { nameTwice, referencedObjects } from "./check.ts";
import { objectDirectory, payloadPath, TOKEN_PATTERN } from "./layout.ts";
import { allAnnouncements } from "./announcements.ts";
import { holderLiveness } from "./observed-lock.ts";
import { findLocks, removeStaleLock, withdrawTheDead } from "./stale.ts";
import { type StoreContext, withLock } from "./transaction.ts";
import type { GcReport } from "./types.ts";

export async function gc(context: StoreContext): Promise<GcReport> {
  return await withLock(context, (state) => {
    const { paths, platform, policy } = context;
    const { files } = platform;
    // What a name hides that is there twice is no orphan.
    const twice = nameTwice(context);
    if (twice !== null) {
      throw new AgentqError(
        "store-invalid",
        `${paths.state} has ${JSON.stringify(twice)} twice in one object`,
        { details: { path: paths.state } },
      );
    }
    const reachable = referencedObjects(state);
    const left: string[] = [];
    let objects = 0;
    let removed = 0;
    const remove = (path: string, action: () => void): boolean => {
      try {
        action();
        return true;
      } catch (error) {
        left.push(ioError("remove", path, error).message);
        return false;
      }
    };
    // Whatever this process believed before, the state on the disk must last before its orphans go.
    files.syncDirectory("admit.sync-parent", paths.namespace);
    admitDirectory(files, paths.objects, policy);
    for (const object of files.readdir(paths.objects)) {
      if (!TOKEN_PATTERN.test(object) || reachable.has(object)) continue;
      const directory = objectDirectory(paths, object);
      const payload = payloadPath(paths, object);
      const gone = remove(directory, () => {
        admitDirectory(files, directory, policy);
        if (files.readdir(directory).includes("payload.json")) {
          files.unlink("gc.unlink-payload", payload);
        }
        files.rmdir("gc.rmdir-object", directory);
      });
      if (gone) objects++;
    }
    for (const lock of findLocks(platform, paths.namespace)) {
      // Left by a recovery that died: its own lock's file, long since of no use.
      if (lock.path === paths.lock || holderLiveness(platform, lock) !== "gone") continue;
      if (removeStaleLock(platform, lock, "proved")) removed++;
    }
    removed += withdrawTheDead(platform, allAnnouncements(platform, paths.namespace), "locked");
    return { objects, files: removed, left };
  });
}
