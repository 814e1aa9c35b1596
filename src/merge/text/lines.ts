/**
 * Text as the merge sees it: bytes cut after every LF, and each line replaced by a small number that is
 * the same for equal lines. CR, NUL and bytes that are no UTF-8 are content like any other.
 */

/** A text cut into lines: line `i` is `data[starts[i], starts[i + 1])`, its LF included. */
export interface Lines {
  readonly data: Uint8Array;
  readonly starts: Int32Array;
  readonly count: number;
}

/** Cuts `data` after every LF; a last line without one is a line too. */
export function splitLines(data: Uint8Array): Lines {
  let starts = new Int32Array(Math.max(16, data.length >> 5));
  let count = 0;
  for (let at = 0; at < data.length;) {
    if (count + 1 >= starts.length) {
      const grown = new Int32Array(starts.length * 2);
      grown.set(starts);
      starts = grown;
    }
    starts[count++] = at;
    const end = data.indexOf(10, at);
    at = end < 0 ? data.length : end + 1;
  }
  starts[count] = data.length;
  return { data, starts: starts.subarray(0, count + 1), count };
}

/** Equal lines of all `texts` get the same number from 0 up to (not including) `classes`. */
export interface LineClasses {
  readonly ids: readonly Int32Array[];
  readonly classes: number;
  readonly tables: LineTables;
}

/**
 * Room for a diff to note something about each class of lines. One for all the diffs of the same texts: a
 * merge with many small conflicts makes many small diffs. The counts are all zero between them.
 */
export interface LineTables {
  readonly first: Int32Array;
  readonly countA: Int32Array;
  readonly countB: Int32Array;
}

function lineTables(classes: number): LineTables {
  return {
    first: new Int32Array(classes),
    countA: new Int32Array(classes),
    countB: new Int32Array(classes),
  };
}

/**
 * Numbers the lines of several texts. Lines that a later text shares with the first one at its beginning
 * or end are recognised by comparing bytes in bulk instead of hashing them again: that is most of them.
 */
export function classifyLines(texts: readonly Lines[]): LineClasses {
  let total = 0;
  for (const text of texts) total += text.count;
  let bits = 4;
  while ((1 << bits) < total * 2) bits++;
  const mask = (1 << bits) - 1;
  const table = new Int32Array(1 << bits).fill(-1);
  // For each class: where its first line is.
  const owner: Uint8Array[] = [];
  const begin = new Int32Array(total);
  const length = new Int32Array(total);
  const hashes = new Int32Array(total);
  let classes = 0;

  const classOf = (data: Uint8Array, from: number, to: number): number => {
    let hash = 0x811c9dc5 | 0;
    for (let i = from; i < to; i++) hash = Math.imul(hash ^ data[i]!, 0x01000193);
    hash ^= hash >>> 15;
    const size = to - from;
    for (let slot = hash & mask;; slot = (slot + 1) & mask) {
      const found = table[slot]!;
      if (found < 0) {
        table[slot] = classes;
        owner.push(data);
        begin[classes] = from;
        length[classes] = size;
        hashes[classes] = hash;
        return classes++;
      }
      if (hashes[found] === hash && length[found] === size) {
        const other = owner[found]!;
        const start = begin[found]!;
        let i = 0;
        while (i < size && other[start + i] === data[from + i]) i++;
        if (i === size) return found;
      }
    }
  };

  const ids: Int32Array[] = [];
  const first = texts[0];
  for (const text of texts) {
    const own = new Int32Array(text.count);
    let head = 0;
    let tail = 0;
    if (text !== first && first) {
      head = sharedHead(first, text);
      tail = sharedTail(first, text, head);
      own.set(ids[0]!.subarray(0, head));
      own.set(ids[0]!.subarray(first.count - tail), text.count - tail);
    }
    for (let i = head; i < text.count - tail; i++) {
      own[i] = classOf(text.data, text.starts[i]!, text.starts[i + 1]!);
    }
    ids.push(own);
  }
  return { ids, classes, tables: lineTables(classes) };
}

/** How many whole lines at the beginning of both texts are the same. */
function sharedHead(a: Lines, b: Lines): number {
  const limit = Math.min(a.data.length, b.data.length);
  let at = 0;
  while (at < limit && a.data[at] === b.data[at]) at++;
  const count = Math.min(a.count, b.count);
  // The last line whose end lies at or before the first difference.
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (a.starts[middle]! <= at && b.starts[middle]! <= at) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** How many whole lines at the end are the same, leaving the first `head` lines alone. */
function sharedTail(a: Lines, b: Lines, head: number): number {
  let x = a.data.length;
  let y = b.data.length;
  const floor = head < a.count ? a.starts[head]! : x;
  const other = head < b.count ? b.starts[head]! : y;
  while (x > floor && y > other && a.data[x - 1] === b.data[y - 1]) {
    x--;
    y--;
  }
  let tail = 0;
  const most = Math.min(a.count, b.count) - head;
  while (tail < most && a.starts[a.count - tail - 1]! > x && b.starts[b.count - tail - 1]! > y) {
    tail++;
  }
  // A line that begins exactly at the first equal byte is shared when the byte before it ends a line in both.
  if (
    tail < most && a.starts[a.count - tail - 1]! === x && b.starts[b.count - tail - 1]! === y
  ) tail++;
  return tail;
}
