/**
 * The shapes that the layers above share: objects, refs, the origin, and the one primitive of the
 * protocol, the compare-and-swap push.
 */

import type { Input } from "../platform/inputs.ts";

/** A SHA-1 object id: 40 lowercase hex digits. */
export type Oid = string;

/** The id of the tree without entries, which every chain commit has. */
export const EMPTY_TREE: Oid = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

export type ObjectType = "commit" | "tree" | "blob" | "tag";

export interface RawObject {
  readonly type: ObjectType;
  /** The content without the loose-object header. Callers must not change it. */
  readonly data: Uint8Array;
}

/** Synchronous reading of objects. Anything missing throws `object-missing` with details.oid. */
export interface ObjectReader {
  read(oid: Oid): RawObject;
  has(oid: Oid): boolean;
  /** Type and size in bytes without inflating more than that takes. */
  stat(oid: Oid): { type: ObjectType; size: number };
}

/** An {@link ObjectReader} that takes new objects too. */
export interface ObjectDatabase extends ObjectReader {
  /** Stores an object unless it is there already and returns its id. */
  write(type: ObjectType, data: Uint8Array): Oid;
}

/** One reading of a repository's refs: what one advertisement said, never two. */
export interface RefSnapshot {
  /** Full ref name to object id. */
  readonly refs: ReadonlyMap<string, Oid>;
  /** What the remote's HEAD points to (`refs/heads/main`), when it is symbolic and told. */
  readonly head: string | null;
}

/** One ref to move: `old` is the exact value read before, null for "does not exist". */
export interface RefUpdate {
  readonly ref: string;
  readonly old: Oid | null;
  readonly new: Oid;
}

/**
 * What became of a push. All or nothing:
 * - `won`: every ref moved;
 * - `lost`: someone else moved a ref first; reread and decide again;
 * - `refused`: a hook, policy or permission; never retried in a loop;
 * - `unknown`: the answer was cut off; reread the refs and see whether the commits are there.
 */
export type PushOutcome =
  | { readonly status: "won" }
  | { readonly status: "lost"; readonly message: string; readonly refs: readonly string[] }
  | {
    readonly status: "refused";
    readonly message: string;
    /** The server's or hook's own words (raw, unescaped: escape before printing). */
    readonly remoteOutput: string;
    readonly refs: readonly { ref: string; reason: string }[];
    /** Set where there was no report, but this HTTP status, and the refs are where they were. */
    readonly httpStatus?: number;
    /** What to do about it, where that is known better than to read the words above. */
    readonly hint?: string;
  }
  | { readonly status: "unknown"; readonly message: string; readonly cause?: unknown };

export interface FetchOptions {
  /** Commits known to be complete locally, offered to the server as `have`. */
  haves?: readonly Oid[];
  signal?: AbortSignal;
}

export interface PushOptions {
  /** Commits the origin is known to hold whole (tip and heads just read): bounds what is sent. */
  remoteHas?: readonly Oid[];
  signal?: AbortSignal;
  /**
   * Awaited before anything of the push can be seen; when it throws, nothing ever will be. Only the file
   * transport knows it, and writes objects meanwhile.
   */
  ready?: () => Promise<void>;
}

/** A lock file that is left in an origin. */
export interface OriginLock {
  readonly path: string;
  /** The ref it stands for; null for the packed ones, without which refs still move. */
  readonly ref: string | null;
  /** A sentence on who holds it. */
  readonly owner: string;
  /** What to do about it. */
  readonly advice: string;
}

/** The origin behind one transport. The protocol in `landing/` knows nothing else of it. */
export interface Origin {
  readonly kind: "file" | "http" | "ssh" | "git";
  /** The url as it may be printed: no credentials. */
  readonly url: string;
  /** One advertisement of HEAD and of the refs whose full name starts with one of `prefixes`. */
  refs(prefixes: readonly string[], signal?: AbortSignal): Promise<RefSnapshot>;
  /**
   * What opening this origin and {@link refs} rest on, where that is known: on a file system of this
   * machine.
   */
  inputs?(prefixes: readonly string[]): readonly Input[] | null;
  /** What pushing there leaves behind that its owner may not like; for a doctor. Null: nothing. */
  remark?(): { readonly message: string; readonly hint: string } | null;
  /**
   * Removes what processes that are proved gone left behind: locks on `refs` and elsewhere, which keep out git
   * too. Pushes do that by themselves. Never throws.
   */
  tidy?(refs: readonly string[]): Promise<void>;
  /**
   * Lock files on `refs`, and on the packed ones, that stay, of owners that nobody knows to run; for a
   * doctor. Only the file transport sees them. It takes its time where there is one.
   */
  leftLocks?(refs: readonly string[], signal?: AbortSignal): Promise<readonly OriginLock[]>;
  /**
   * The raw content of single objects (commits), without their history or trees.
   * Anything the origin lacks is absent from the result. With more `generations` than one, parents may
   * be in it too: where they come in the same answer.
   */
  readCommits(
    oids: readonly Oid[],
    signal?: AbortSignal,
    generations?: number,
  ): Promise<Map<Oid, Uint8Array>>;
  /** Direct reading of the origin's objects where that is possible (file transport), else null. */
  objects(): ObjectReader | null;
  /** Brings `wants` and all they reach into `into`, asking only for what is missing there. */
  fetch(wants: readonly Oid[], into: FetchTarget, options?: FetchOptions): Promise<void>;
  /** The compare-and-swap: all updates with their exact old values, or none. */
  push(
    updates: readonly RefUpdate[],
    objects: ObjectReader,
    options?: PushOptions,
  ): Promise<PushOutcome>;
  close(): void;
}

/** Where fetched objects go: a repository's object database. */
export interface FetchTarget extends ObjectDatabase {
  /** The directory new packs are moved into, `…/objects/pack`. */
  readonly packDirectory: string;
  /** Makes packs that appeared in `packDirectory` readable. */
  refresh(): void;
  /** True in a partial clone: what comes from the origin may refer to what isn't here. */
  readonly isPartial?: boolean;
}
