/**
 * What processes that were killed in the middle of a push have left in a repository: locks on refs, `.keep`
 * files and, for those in other containers, their signs of life, which prove the rest to be left over.
 *
 * Whoever is in need of a lock breaks it himself (`ref-lock.ts`). The sign must outlast everything that names
 * it, or nobody could ever judge that; so a later push, in need of none of it, removes all there is of a dead
 * process, the sign last. The sign says where its locks are.
 */
import { dirname } from "node:path";
import { type EndedLife, endedLives, type Life } from "../../platform/life.ts";
import { discardOrphans, keepFiles, releaseOrphans } from "./keep.ts";
import { breakStaleLock, readLock } from "./ref-lock.ts";

/** A dead one's lock may be in the hands of another dead one. */
const TRIES = 4;

/** Never throws: what can't be removed now stays for the next push. */
export function buryDead(commonDir: string, packDirectory: string, life: Life | null): void {
  let dead: EndedLife[] = [];
  try {
    dead = endedLives(commonDir);
    if (dead.length > 0) {
      releaseOrphans(packDirectory, commonDir);
      discardOrphans(dirname(packDirectory), commonDir);
    }
    for (const ended of dead) {
      const held = ended.notes.filter(isLockPath).map((path) => `${commonDir}/${path}`)
        .filter((lock) => {
          const tryAgain = () => breakStaleLock(lock, { lives: commonDir, life });
          for (let tries = 0; tries < TRIES && isOf(ended, lock) && tryAgain();) tries++;
          return isOf(ended, lock);
        });
      if (held.length === 0) ended.forget();
    }
  } catch {
    // A disk that can't be tidied will say so to whoever needs it.
  } finally {
    for (const ended of dead) ended.leave();
  }
}

/**
 * Ends this process's sign of life after a push. Where one that wasn't `tidied` couldn't take away what names
 * the sign, it is left, so that others can. Never throws.
 */
export function endLife(
  life: Life,
  commonDir: string,
  packDirectory: string,
  tidied: boolean,
): void {
  try {
    const left = () =>
      life.noted.some((path) => isOf(life, `${commonDir}/${path}`)) ||
      keepFiles(packDirectory).some((path) => isOf(life, path));
    if (tidied || !left()) life.end();
  } catch {
    // It can't be told what is left.
  } finally {
    life.abandon();
  }
}

function isOf({ mark }: { readonly mark: string }, lock: string): boolean {
  const owner = readLock(lock);
  return typeof owner === "object" && owner.life === mark;
}

/** Notes come from outside: nothing but a lock in the repository is looked at. */
function isLockPath(note: string): boolean {
  return note.endsWith(".lock") && !note.startsWith("/") && !note.split("/").includes("..");
}
