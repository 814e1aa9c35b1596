/** Admitting a store: its parts are what they were and belong together; the state is durable. */
import { Buffer } from "node:buffer";
import { AgentqError, isAgentqError } from "../errors.ts";
import { syncError } from "../platform/durable.ts";
import type { FileStat } from "../platform/files.ts";
import {
  admitDirectory,
  admitFile,
  admitRoot,
  type AdmittedFile,
  isAlike,
  isUnchanged,
} from "./admit.ts";
import { orDamaged } from "./damage.ts";
import type { StoreState } from "./state.ts";
import { parseFormat, parseState } from "./state-file.ts";
import type { StoreContext } from "./transaction.ts";

/** A state, and what its file is known again by. */
export interface KnownState {
  readonly stateFile: FileStat;
  /** The file's exact bytes; of a large one only the first, with the revision among them. */
  readonly bytes: Uint8Array;
  readonly state: StoreState;
}

export interface Admitted extends KnownState {
  readonly namespace: FileStat;
}

const MAX_FORMAT_BYTES = 4096;

/** Root, namespace, format, state and objects are this store's; the state is durable. */
export function admit(context: StoreContext): Admitted {
  const { paths, policy } = context;
  const { files } = context.platform;
  admitRoot(files, paths.root, policy);
  const namespace = admitDirectory(files, paths.namespace, policy);
  admitFormat(context);
  const state = admitState(context);
  admitObjects(context);
  return { ...state, namespace };
}

/** Without it every payload would look lost, and through a link payloads would go elsewhere. */
function admitObjects({ paths, policy, platform: { files } }: StoreContext): void {
  try {
    admitDirectory(files, paths.objects, policy);
  } catch (error) {
    if (!isAgentqError(error, "io-error") || error.details?.errno !== "ENOENT") throw error;
    throw new AgentqError("store-invalid", `${paths.objects} is missing`, {
      cause: error,
      hint: "The payloads are gone: restore the directory from a copy.",
      details: { path: paths.objects },
    });
  }
}

function admitState(context: StoreContext): KnownState {
  const { paths, policy, limits } = context;
  const { files } = context.platform;
  const known = context.trusted;
  const large = known !== null && known.stateFile.size >= LARGE_STATE_BYTES;
  const { maxStateBytes } = limits;
  let read = admitFile(files, paths.state, policy, maxStateBytes, large ? HEAD_BYTES : undefined);
  if (known !== null && isKnown(known, read, large)) {
    return { ...known, stateFile: read.stat };
  }
  if (large) read = admitFile(files, paths.state, policy, maxStateBytes);
  // Its writer may have died between the rename and the sync: only now will it last.
  try {
    files.syncDirectory("admit.sync-parent", paths.namespace);
  } catch (error) {
    throw syncError(paths.namespace, error);
  }
  const state = parsed(context, parseState, read.bytes, paths.state);
  if (state.storeId !== context.storeId) throw mismatch(context, paths.state);
  return { stateFile: read.stat, bytes: bytesToKnow([read.bytes]), state };
}

const LARGE_STATE_BYTES = 64 * 1024;
const HEAD_BYTES = 512;

/** What is kept of a state's bytes (given in pieces) to know it again. */
export function bytesToKnow(pieces: readonly Uint8Array[]): Uint8Array {
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  return Buffer.concat(pieces, length < LARGE_STATE_BYTES ? length : HEAD_BYTES);
}

/**
 * Whether the state that was read is the one known already. A small one is when all its bytes are the
 * same. A large one is when it begins alike and nothing that the file system tells of the file has
 * changed: no two states of a store have the same revision, so that no transaction can have made another
 * of it. (What no transaction does, a change in place, shows by the time of the file's last change.)
 */
function isKnown(known: KnownState, read: AdmittedFile, large: boolean): boolean {
  return equalBytes(known.bytes, read.bytes) && (!large || isAlike(read.stat, known.stateFile));
}

/** format.json never changes: once it was read, lstat tells whether it still is that file. */
function admitFormat(context: StoreContext): void {
  const { paths, policy } = context;
  const { files } = context.platform;
  if (context.formatFile !== null && isUnchanged(files, paths.format, context.formatFile)) return;
  const { stat, bytes } = admitFile(files, paths.format, policy, MAX_FORMAT_BYTES);
  const format = parsed(context, parseFormat, bytes, paths.format);
  if (format.storeId !== context.storeId) throw mismatch(context, paths.format);
  context.formatFile = stat;
}

function parsed<T>(
  context: StoreContext,
  parse: (text: string, path: string) => T,
  bytes: Uint8Array,
  path: string,
): T {
  try {
    return parse(decode(bytes), path);
  } catch (error) {
    throw orDamaged(context.platform, context.paths, error);
  }
}

/** A file of a store that isn't the one that was opened: of the pair that lies there, or with it. */
function mismatch(context: StoreContext, path: string): AgentqError {
  const { paths, storeId } = context;
  const now = storeThere(context);
  if (now === null || now === storeId) {
    return new AgentqError("store-id-mismatch", `${path} isn't of store ${storeId}`, {
      details: { path },
    });
  }
  return new AgentqError(
    "store-id-mismatch",
    `in ${paths.root} lies the store ${now} by now, not ${storeId}, which was opened`,
    {
      hint:
        "The store was replaced (removed and made anew, or restored from another): start the command again, " +
        "and it works on the one that is there.",
      details: { path, opened: storeId, found: now },
    },
  );
}

/** The store to which both files that lie there belong; null where they don't belong together or can't be used. */
function storeThere({ paths, policy, limits, platform: { files } }: StoreContext): string | null {
  const read = (path: string, limit: number) => decode(admitFile(files, path, policy, limit).bytes);
  for (let tries = 1;; tries++) {
    try {
      const format = parseFormat(read(paths.format, MAX_FORMAT_BYTES), paths.format);
      const state = parseState(read(paths.state, limits.maxStateBytes), paths.state);
      return format.storeId === state.storeId ? state.storeId : null;
    } catch (error) {
      if (!isAgentqError(error)) throw error;
      // Those who use the new one may be renaming its state between two of our calls.
      if (!isAgentqError(error, "identity-changed") || tries === 10) return null;
    }
  }
}

/** UTF-8, strictly: a state that isn't is malformed. */
export function decode(bytes: Uint8Array): string {
  try {
    return STRICT_UTF8.decode(bytes);
  } catch {
    // Not JSON either, which is what the parser then says.
    return "\ufffd";
  }
}

const STRICT_UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length &&
    Buffer.compare(a, b) === 0;
}
