/**
 * How a script is called: what is the same in every call of it (its name, keys and first arguments) is
 * written for the wire once.
 */
import { Buffer } from "node:buffer";
import { Command } from "ioredis";
import type { Script } from "./scripts/prelude.ts";

export type Argument = string | number | Uint8Array;

/** One script with its keys and the arguments that every call of it has. */
export interface CallHead {
  readonly script: Script;
  readonly keys: readonly string[];
  readonly args: readonly string[];
  /** The parts of EVALSHA up to there, on the wire. */
  readonly wire: string;
  /** How many parts those are. */
  readonly parts: number;
}

/** Makes the head; kept by whoever calls often. */
export function callHead(
  script: Script,
  keys: readonly string[],
  args: readonly string[] = [],
): CallHead {
  const parts = ["evalsha", script.sha, String(keys.length), ...keys, ...args];
  return { script, keys, args, wire: parts.map(bulk).join(""), parts: parts.length };
}

const carefulHeads = new WeakMap<CallHead, CallHead>();

/** The same call with a further key: the script looks first whether it may do all that it has to. */
export function carefulHead(head: CallHead): CallHead {
  let made = carefulHeads.get(head);
  if (made === undefined) {
    const { script, keys, args } = head;
    carefulHeads.set(head, made = callHead(script, [...keys, keys[0]!], args));
  }
  return made;
}

/** A command whose time somebody else watches: it needs no timer of its own, nor diagnostics. */
export class Call extends Command {
  override isTraced = true;
  override setTimeout(): void {}
}

/** EVALSHA of a head. Its own arguments end with the keys, by which a cluster finds the node. */
class HeadCall extends Call {
  constructor(private readonly head: CallHead, private readonly rest: readonly Argument[]) {
    super("evalsha", [head.script.sha, head.keys.length, ...head.keys], { replyEncoding: null });
  }
  override toWritable(): string | Buffer {
    const { head, rest } = this;
    let text = `*${head.parts + rest.length}\r\n${head.wire}`;
    const chunks: Uint8Array[] = [];
    for (const each of rest) {
      if (each instanceof Uint8Array) {
        chunks.push(Buffer.from(`${text}$${each.length}\r\n`), each);
        text = "\r\n";
      } else text += bulk(String(each));
    }
    return chunks.length === 0 ? text : Buffer.concat([...chunks, Buffer.from(text)]);
  }
}

function bulk(text: string): string {
  return `$${Buffer.byteLength(text)}\r\n${text}\r\n`;
}

/** The call by the script's digest. */
export function callKnown(head: CallHead, args: readonly Argument[]): Call {
  return new HeadCall(head, args);
}

/** The call with the script's source, for a server that doesn't know it yet. */
export function callSource(
  { script, keys, args: first }: CallHead,
  args: readonly Argument[],
): Call {
  const all = [script.source, keys.length, ...keys, ...first, ...args];
  return new Call("eval", all as (string | number | Buffer)[], { replyEncoding: null });
}
