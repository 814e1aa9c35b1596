/**
 * Whether a standard stream was closed when this process began. The runtime puts /dev/null in the place of
 * such a one, into which an answer goes without a word, and from which an empty message comes. What the
 * runtime opened is closed on exec, which nothing can be that was inherited: that tells the two apart.
 */
import { fstatSync, readFileSync } from "node:fs";

/** Device 1:3. */
const NULL_DEVICE = 0x103;
const CLOSE_ON_EXEC = 0o2000000;

/** Knows it on Linux; elsewhere false, and writing fails by itself where the stream stayed closed. */
export function wasClosed(fd: 0 | 1): boolean {
  try {
    const stat = fstatSync(fd);
    if (!stat.isCharacterDevice() || stat.rdev !== NULL_DEVICE) return false;
    const flags = /^flags:\s*([0-7]+)/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, "latin1"));
    return flags !== null && (parseInt(flags[1]!, 8) & CLOSE_ON_EXEC) !== 0;
  } catch (error) {
    return (error as { code?: unknown }).code === "EBADF";
  }
}
