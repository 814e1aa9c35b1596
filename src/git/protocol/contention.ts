/**
 * What a server means by a push that it turned down while the refs are where they were: that another push
 * held a lock at that moment, that a ref has moved (where we can't see it yet), or none of both.
 *
 * Only words tell, and only where the report says that it was the transaction of the refs that failed: a
 * hook that declined is taken at its word. The words are those of
 *
 * - git's `files` refs: `cannot lock ref 'R': Unable to create 'P.lock': File exists.` (lockfile.c), and
 *   below it `Another git process seems to be running …` or `Lock may be held by process N …`;
 *   `cannot lock ref 'R': is at A but expected B`, `… reference is missing but expected B`;
 * - git's `reftable` refs: `cannot lock references`, `reftable: transaction prepare: data is locked`,
 *   `… data is outdated`, `… data concurrently modified`;
 * - JGit, and git before its transactions: `failed to lock` in the report itself.
 *
 * A server that speaks another language still names the lock file; so what names one counts, unless it
 * says in plain words that no waiting helps (no permission, no space).
 */

export interface Contention {
  readonly kind: "locked" | "moved";
  /** The ref that the server named; null where it named none. */
  readonly ref: string | null;
  /** The server's line about it. */
  readonly words: string;
}

export interface TurnedDown {
  readonly refused: readonly { readonly ref: string; readonly reason: string }[];
  readonly remoteOutput: string;
}

/** Reports that leave the reason to the words beside them, as git and JGit write them. */
const OF_TRANSACTION =
  /^(atomic transaction failed|failed to update refs?\b|transaction failed to start|failed to lock|cannot lock|incorrect old value|reference does not exist)/i;

const LOCKED = [
  /\.lock'?: File exists/,
  /Another git process seems to be running/,
  /Lock (may be|was) held by process/,
  /cannot lock references/,
  /\bdata is (locked|outdated)\b/,
  /\bdata concurrently modified\b/,
  /\bfailed to lock\b/i,
];

/** Names a lock file, in whatever language. */
const NAMES_LOCK = /cannot lock ref '[^']*':.*\.lock\b/;

const HOPELESS =
  /Permission denied|Operation not permitted|No space left|Disk quota|Read-only file system|Not a directory|Is a directory|File name too long|Input\/output error|No such file|Too many open files|Cannot allocate/;

const MOVED = [
  /cannot lock ref '[^']*': is at [0-9a-f]+ but expected [0-9a-f]+/,
  /cannot lock ref '[^']*': reference is missing but expected [0-9a-f]+/,
  /^incorrect old value provided$/,
  /^reference does not exist$/,
];

/** What the server's words say of a push whose refs are where they were; null: it was refused. */
export function contentionOf({ refused, remoteOutput }: TurnedDown): Contention | null {
  const telling = refused.filter(({ reason }) => OF_TRANSACTION.test(reason));
  if (telling.length === 0 || refused.some(({ reason }) => /hook declined/i.test(reason))) {
    return null;
  }
  const lines = [
    ...remoteOutput.split(/[\r\n]+/),
    ...telling.map(({ reason }) => reason),
  ].map((line) => line.trim());
  const moved = lines.find((line) => MOVED.some((pattern) => pattern.test(line)));
  if (moved !== undefined) return found("moved", moved, telling);
  const locked = lines.find((line) =>
    LOCKED.some((pattern) => pattern.test(line)) ||
    (NAMES_LOCK.test(line) && !HOPELESS.test(line))
  );
  return locked === undefined ? null : found("locked", locked, telling);
}

function found(
  kind: Contention["kind"],
  words: string,
  telling: TurnedDown["refused"],
): Contention {
  const named = /cannot lock ref '([^']*)'/.exec(words)?.[1];
  const alone = telling.length === 1 ? telling[0]!.ref : undefined;
  return { kind, ref: named ?? alone ?? null, words };
}
