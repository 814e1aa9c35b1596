/**
 * The messages of the three chains, as they stand in commits: validated when read, bounded when
 * written.
 *
 * Fields at the top level are shared with weave, name and type. Ours live in one object, `agentq`,
 * which other clients ignore and whose absence every reader here must bear. Fields nobody here knows
 * are kept as they are.
 */
import { Buffer } from "node:buffer";
import { AgentqError } from "../errors.ts";
import type { Oid } from "../git/types.ts";
import type { Genesis, Lock, Paused, Result, Ticket, VerifyRecord } from "./message-schemas.ts";
import { isKnownShape } from "./message-shapes.ts";

export type { Genesis, Lock, Paused, Result, Ticket, VerifyRecord };

/** Larger messages are refused before they are parsed. */
export const MAX_MESSAGE_BYTES = 1024 * 1024;

/** What agentq itself writes stays well below that. */
export const MAX_REPORT_BYTES = 64 * 1024;
export const MAX_LIST_BYTES = 64 * 1024;
export const MAX_COMMAND_BYTES = 64 * 1024;
export const MAX_TITLE_BYTES = 4 * 1024;

/** Stands for "no commit" where a message must hold an id: the branch did not exist yet. */
export const NO_TIP: Oid = "0".repeat(40);

/** `[ticket, commit]` of ancestors in the same chain, nearest first; see skip.ts. */
export type SkipList = [number, Oid][];

/** The chains, by the last word of their refs. */
export type ChainName = "queue" | "done" | "lock";

export interface MessageOf {
  queue: Ticket;
  done: Result;
  lock: Lock;
}

/** An error that names the commit that can't be an entry of `chain`. */
export function corruptChain(chain: ChainName, commit: Oid, what: string): AgentqError {
  return new AgentqError("corrupt-chain", `commit ${commit} in the ${chain} chain ${what}`, {
    details: { chain, commit },
  });
}

/**
 * Reads the message of a chain commit.
 * @throws `corrupt-chain`, `chain-unsupported`
 */
export async function decodeMessage<C extends ChainName>(
  chain: C,
  commit: Oid,
  bytes: Uint8Array,
): Promise<MessageOf[C] | Genesis> {
  const value = parseMessage(chain, commit, bytes);
  if (!isKnownShape(chain, value)) {
    const version = (value as { agentq?: { v?: unknown } } | null)?.agentq?.v;
    if (typeof version === "number" && version > 1) {
      throw new AgentqError(
        "chain-unsupported",
        `commit ${commit} in the ${chain} chain was written by a newer agentq (format ${version})`,
        { details: { chain, commit } },
      );
    }
    const { problemOf } = await import("./message-schemas.ts");
    const problem = problemOf(chain, value);
    if (problem !== null) throw corruptChain(chain, commit, `has the wrong shape: ${problem}`);
  }
  const message = value as MessageOf[C] | Genesis;
  if (message.kind === "genesis" && message.chain !== chain) {
    throw corruptChain(chain, commit, `is the genesis of ${JSON.stringify(message.chain)}`);
  }
  return message;
}

function parseMessage(chain: ChainName, commit: Oid, bytes: Uint8Array): unknown {
  if (bytes.length > MAX_MESSAGE_BYTES) {
    throw corruptChain(
      chain,
      commit,
      `has a message of ${bytes.length} bytes, more than any client writes`,
    );
  }
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (cause) {
    throw new AgentqError(
      "corrupt-chain",
      `commit ${commit} in the ${chain} chain has a message that is not JSON`,
      { cause, details: { chain, commit } },
    );
  }
}

/** The bytes of a message as they stand in its commit. */
export function encodeMessage(message: Genesis | Ticket | Result | Lock): Uint8Array {
  return Buffer.from(`${JSON.stringify(message)}\n`, "utf8");
}

/** The last `maxLines` lines of `text`, within {@link MAX_REPORT_BYTES}. */
export function reportTail(text: string, maxLines = 200): string {
  const lines = text.replace(/\n+$/, "").split("\n");
  let kept = lines.slice(-maxLines).join("\n");
  if (Buffer.byteLength(kept) > MAX_REPORT_BYTES) {
    // Cutting bytes can split a character: its remains become the replacement character.
    kept = "… " + Buffer.from(kept).subarray(-(MAX_REPORT_BYTES - 8)).toString("utf8");
  }
  return kept;
}

/** As much of `list` as fits into {@link MAX_LIST_BYTES}, with a last word on what doesn't. */
export function boundedList(list: readonly string[]): string[] {
  const kept: string[] = [];
  let bytes = 0;
  for (const one of list) {
    bytes += Buffer.byteLength(one) + 4;
    if (bytes > MAX_LIST_BYTES) {
      kept.push(`… and ${list.length - kept.length} more`);
      break;
    }
    kept.push(one);
  }
  return kept;
}
