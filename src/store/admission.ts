/** Admitting a store: its four parts are what they were and belong together; the state is durable. */
import { Buffer } from "node:buffer";
import { AgentqError } from "../errors.ts";
import { syncError } from "../platform/durable.ts";
import type { FileStat } from "../platform/files.ts";
import { admitDirectory, admitFile, admitRoot, isUnchanged } from "./admit.ts";
import type { StoreState } from "./state.ts";
import { parseFormat, parseState } from "./state-file.ts";
import type { StoreContext } from "./transaction.ts";

export interface Admitted {
  readonly namespace: FileStat;
  readonly stateFile: FileStat;
  readonly bytes: Uint8Array;
  readonly state: StoreState;
}

const MAX_FORMAT_BYTES = 4096;

/** Root, namespace, format and state are this store's; the state is durable. */
export function admit(context: StoreContext): Admitted {
  const { paths, policy, limits } = context;
  const { files } = context.platform;
  admitRoot(files, paths.root, policy);
  const namespace = admitDirectory(files, paths.namespace, policy);
  admitFormat(context);

  const { stat, bytes } = admitFile(files, paths.state, policy, limits.maxStateBytes);
  if (context.trusted !== null && equalBytes(context.trusted.bytes, bytes)) {
    return { namespace, stateFile: stat, bytes, state: context.trusted.state };
  }
  // Its writer may have died between the rename and the sync: only now will it last.
  try {
    files.syncDirectory("admit.sync-parent", paths.namespace);
  } catch (error) {
    throw syncError(paths.namespace, error);
  }
  const state = parseState(decode(bytes), paths.state);
  if (state.storeId !== context.storeId) throw mismatch(paths.state, context.storeId);
  return { namespace, stateFile: stat, bytes, state };
}

/** format.json never changes: once it was read, lstat tells whether it still is that file. */
function admitFormat(context: StoreContext): void {
  const { paths, policy } = context;
  const { files } = context.platform;
  if (context.formatFile !== null && isUnchanged(files, paths.format, context.formatFile)) return;
  const { stat, bytes } = admitFile(files, paths.format, policy, MAX_FORMAT_BYTES);
  const format = parseFormat(decode(bytes), paths.format);
  if (format.storeId !== context.storeId) throw mismatch(paths.format, context.storeId);
  context.formatFile = stat;
}

function mismatch(path: string, storeId: string): AgentqError {
  return new AgentqError("store-id-mismatch", `${path} isn't of store ${storeId}`, {
    details: { path },
  });
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
