/**
 * The order in which git visits the strings of a hash table.
 *
 * Where several answers are equally good (two directories that got the same number of a directory's
 * files), git takes the first it meets in a hash table. To give the same answer the same order is needed:
 * 32-bit FNV-1, 64 buckets that become four times as many when four fifths are in use, newest first
 * within a bucket.
 */

function fnv1(text: string): number {
  let hash = 0x811c9dc5 | 0;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash, 0x01000193) ^ text.charCodeAt(i);
  return hash;
}

/** `keys` (byte strings, in the order they were added) in the order of visiting them. */
export function hashOrder(keys: Iterable<string>): string[] {
  let size = 64;
  let buckets: { key: string; hash: number }[][] = Array.from({ length: size }, () => []);
  let count = 0;
  for (const key of keys) {
    const hash = fnv1(key);
    // The end of a bucket's array is its front.
    buckets[hash & (size - 1)]!.push({ key, hash });
    if (++count > Math.floor(size * 80 / 100)) {
      const old = buckets;
      size *= 4;
      buckets = Array.from({ length: size }, () => []);
      for (const bucket of old) {
        for (let i = bucket.length - 1; i >= 0; i--) {
          buckets[bucket[i]!.hash & (size - 1)]!.push(bucket[i]!);
        }
      }
    }
  }
  const order: string[] = [];
  for (const bucket of buckets) {
    for (let i = bucket.length - 1; i >= 0; i--) order.push(bucket[i]!.key);
  }
  return order;
}
