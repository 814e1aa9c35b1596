/** File systems whose locks every process of this kernel sees, from whatever container. */
import { statfsSync } from "node:fs";

/** ext4, XFS, btrfs, f2fs, tmpfs, overlayfs, ZFS, as statfs tells them. */
const OF_THIS_KERNEL = new Set([
  0xef53,
  0x58465342,
  0x9123683e,
  0xf2f52010,
  0x01021994,
  0x794c7630,
  0x2fc12fc1,
]);

/**
 * The type of the file system that `path` lies on. Null where that isn't one of this kernel: over a network,
 * and through FUSE, 9p or virtiofs, the same file may be two to the kernel, and a lock on one not hold for the
 * other. So may a file be that is seen through an overlay and beside it: then the types differ.
 */
export function kernelFileSystem(path: string): number | null {
  try {
    if (process.platform !== "linux") return null;
    const type = statfsSync(path).type >>> 0;
    return OF_THIS_KERNEL.has(type) ? type : null;
  } catch {
    return null;
  }
}
