/**
 * Writing the plain files of a large checkout with two threads, so that both halves of the work (finding
 * and inflating objects, making files) are done twice at the same time.
 *
 *   this thread ──task──▶ the other:  both take stretches of the list from one shared counter
 *               ◀─stats── when the counter is at the end
 *
 * The other thread only ever creates files where nothing is. Whatever it can't do so (something stands in
 * the way, an object is missing, the disk is full) it leaves alone, and the caller does it afterwards, or
 * says what is wrong. So nothing depends on it: where it can't be started, its share is done here. It
 * ends with the process, and is done before the caller goes on.
 */
import { nodeOs, nodeWorkerThreads } from "../platform/builtins.ts";
import type { StatData } from "./file-stat.ts";
import { openObjectStore } from "./odb.ts";
import { writePlain } from "./checkout-write.ts";
import type { TreeLeaf } from "./tree-leaves.ts";
import { openWorkTree } from "./work-tree.ts";

/** What the other thread is told. */
export interface ShareTask {
  readonly root: string;
  /** Own directory first, then the alternates. */
  readonly objectDirectories: readonly string[];
  /** "mode oid path" for each file, NUL between them; the paths are byte strings. */
  readonly files: string;
  /** One number: where the next stretch begins. */
  readonly next: SharedArrayBuffer;
}

/** What it answers: places in the list, and nine numbers of a stat for each. */
export interface ShareDone {
  readonly places: Uint32Array;
  readonly stats: Uint32Array;
}

/** Fewer files than this are written sooner than a thread is started. */
export const ENOUGH_TO_SHARE = 2000;
/** Files taken at once: a few directories, and a moment's work. */
const STRETCH = 128;
/** So many failures say that something is wrong with more than one file. */
const MAX_FAILURES = 16;
/** The other thread's own cache of pack slices and delta bases. */
const CACHE_BYTES = 8 * 1024 * 1024;

/** A share of the work in another thread. */
export interface Helper {
  /** The next stretch of the list for this thread, as [from, to); null when all are taken. */
  take(): readonly [number, number] | null;
  /** Ends it: what isn't taken stays undone. Gives the stats of what it has written. */
  finish(): Promise<ReadonlyMap<number, StatData>>;
}

/** Starts a thread for `leaves`, plain files that are to be written as they are stored. */
export function startHelper(
  root: string,
  objectDirectories: readonly string[],
  leaves: readonly TreeLeaf[],
): Helper | null {
  if (leaves.length < ENOUGH_TO_SHARE || nodeOs().availableParallelism() < 2) return null;
  const next = new SharedArrayBuffer(4);
  const task: ShareTask = {
    root,
    objectDirectories,
    files: leaves.map(({ mode, oid, path }) => `${mode} ${oid} ${path}`).join("\0"),
    next,
  };
  const worker = new (nodeWorkerThreads().Worker)(threadEntry());
  const done = new Promise<ShareDone | null>((resolve) => {
    worker.once("message", resolve);
    worker.once("error", () => resolve(null));
    worker.once("exit", () => resolve(null));
  });
  worker.postMessage(task);
  return {
    take: () => takeStretch(next, leaves.length),
    async finish() {
      Atomics.store(new Int32Array(next), 0, leaves.length);
      const answer = await done;
      await worker.terminate();
      return answer === null ? new Map() : statsOf(answer);
    },
  };
}

/** Where the thread's code is: beside this file, or embedded in the binary under its own name. */
function threadEntry(): URL {
  const isCompiled = /\/(?:\$bunfs|~BUN)\//.test(import.meta.url);
  return new URL(
    isCompiled ? "./src/git/checkout-thread.js" : "./checkout-thread.ts",
    import.meta.url,
  );
}

function takeStretch(next: SharedArrayBuffer, length: number): readonly [number, number] | null {
  const from = Atomics.add(new Int32Array(next), 0, STRETCH);
  return from < length ? [from, Math.min(from + STRETCH, length)] : null;
}

/** The other thread's work. */
export function doShare(task: ShareTask): ShareDone {
  const [directory, ...alternates] = task.objectDirectories;
  const objects = openObjectStore(directory!, {
    cacheBytes: CACHE_BYTES,
    alternates: alternates.join(":"),
  });
  const tree = openWorkTree(task.root);
  const files = task.files.split("\0");
  const places: number[] = [];
  const stats: number[] = [];
  let failures = 0;
  for (;;) {
    const stretch = failures < MAX_FAILURES ? takeStretch(task.next, files.length) : null;
    if (stretch === null) break;
    for (let at = stretch[0]; at < stretch[1]; at++) {
      const text = files[at]!;
      const space = text.indexOf(" ");
      const leaf = {
        mode: Number(text.slice(0, space)),
        oid: text.slice(space + 1, space + 41),
        path: text.slice(space + 42),
      };
      const stat = writePlain(tree, objects, leaf);
      if (stat === null) failures++;
      else {
        places.push(at);
        stats.push(...numbersOf(stat));
      }
    }
  }
  objects.close();
  return { places: Uint32Array.from(places), stats: Uint32Array.from(stats) };
}

const FIELDS = [
  "ctimeSec",
  "ctimeNsec",
  "mtimeSec",
  "mtimeNsec",
  "dev",
  "ino",
  "uid",
  "gid",
  "size",
] as const satisfies readonly (keyof StatData)[];

function numbersOf(stat: StatData): number[] {
  return FIELDS.map((field) => stat[field]);
}

function statsOf({ places, stats }: ShareDone): Map<number, StatData> {
  const found = new Map<number, StatData>();
  places.forEach((place, i) => {
    const at = i * FIELDS.length;
    found.set(place, {
      ctimeSec: stats[at]!,
      ctimeNsec: stats[at + 1]!,
      mtimeSec: stats[at + 2]!,
      mtimeNsec: stats[at + 3]!,
      dev: stats[at + 4]!,
      ino: stats[at + 5]!,
      uid: stats[at + 6]!,
      gid: stats[at + 7]!,
      size: stats[at + 8]!,
    });
  });
  return found;
}
