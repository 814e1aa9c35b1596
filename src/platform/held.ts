/**
 * What has lost its last name and isn't freed yet.
 *
 * A system frees a file with the call that removes its last name, unless it is still open: then with the
 * one that closes it. That can mean a round trip to the disk for each block (ext4 without a journal,
 * mounted with `discard`), which nobody has to wait for.
 */
import fs, { constants } from "node:fs";

/** See `FileSystem.hold`. */
export function hold(path: string, dev: bigint): number | null {
  try {
    return keepsNameless(path, dev) ? fs.openSync(path, HOLD) : null;
  } catch {
    return null;
  }
}

/** See `FileSystem.letGo`. */
export async function letGo(held: readonly number[]): Promise<void> {
  for (const each of held) toClose.push(each);
  closeSome();
  while (toClose.length > MAX_TO_CLOSE) await Promise.race(closing);
}

/** Resolves when all that was let go of is closed. */
export async function freed(): Promise<void> {
  while (closing.size > 0) await Promise.all(closing);
}

/** Never waits, whatever is there. */
const HOLD = constants.O_RDONLY | constants.O_NONBLOCK | (constants.O_NOFOLLOW ?? 0);

/**
 * ext4, XFS, btrfs, f2fs, tmpfs, overlayfs, as statfs tells them. NFS and FUSE would give what is still open
 * another name, in a directory that is to go.
 */
const KEEP_NAMELESS = new Set([
  0xef53,
  0x58465342,
  0x9123683e,
  0xf2f52010,
  0x01021994,
  0x794c7630,
]);

const kept = new Map<bigint, boolean>();

/** Whether the file system keeps a file that has no name any more, without giving it one. */
function keepsNameless(path: string, dev: bigint): boolean {
  let answer = kept.get(dev);
  if (answer === undefined) {
    answer = process.platform === "linux" && KEEP_NAMELESS.has(fs.statfsSync(path).type);
    kept.set(dev, answer);
  }
  return answer;
}

const toClose: number[] = [];
/** Far from the limit of open files, and so much that a disk has something to do meanwhile. */
const MAX_TO_CLOSE = 200;
/** Few at a time, so that the threads that do it soon have one for whoever waits for something. */
const MAX_CLOSING = 8;
const closing = new Set<Promise<void>>();

function closeSome(): void {
  while (closing.size < MAX_CLOSING && toClose.length > 0) {
    const fd = toClose.shift()!;
    const closed = new Promise<void>((resolve) => fs.close(fd, () => resolve())).then(() => {
      closing.delete(closed);
      closeSome();
    });
    closing.add(closed);
  }
}
