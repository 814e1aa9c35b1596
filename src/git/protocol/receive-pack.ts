/**
 * The push request to git-receive-pack and its report. The same bytes over every transport.
 *
 *   old new ref NUL capabilities │ old new ref … │ flush │ pack      ▶
 *   ◀ side band 1: unpack ok │ ok ref … or ng ref reason … │ flush     (band 2: words for people)
 */
import { Buffer } from "node:buffer";
import { AgentqError } from "../../errors.ts";
import { ZERO_OID } from "../oid.ts";
import {
  cutOff,
  FLUSH,
  pktLine,
  type PktReader,
  pktReader,
  pktText,
  sideband,
} from "../pkt-line.ts";
import type { RefUpdate } from "../types.ts";
import { broken, saidError } from "./advertisement.ts";

type Capabilities = ReadonlyMap<string, string>;

export interface PushReport {
  /** `ok`, or why the server could not take the pack. */
  readonly unpack: string;
  readonly ok: readonly string[];
  readonly refused: readonly { ref: string; reason: string }[];
  /** What hooks have said so far. */
  remoteOutput(): string;
  /** Reads on to the end of the answer: post-receive hooks speak behind the report. */
  rest(): Promise<void>;
}

const MAX_OUTPUT = 1 << 20;

/** @throws `atomic-unsupported`, `protocol-error`: the server can't do what the queue rests on */
export function checkPushCapabilities(capabilities: Capabilities, from: string): void {
  if (!capabilities.has("atomic")) {
    throw new AgentqError(
      "atomic-unsupported",
      `${from} can't move several refs all or none (it does not offer "atomic").`,
    );
  }
  if (!capabilities.has("report-status") && !capabilities.has("report-status-v2")) {
    throw new AgentqError("protocol-error", `${from} does not report what became of a push.`);
  }
}

/** The commands of a push, in the order in which the refs shall move; the pack follows them. */
export function pushCommands(
  updates: readonly RefUpdate[],
  capabilities: Capabilities,
  agent: string,
): Buffer {
  const words = [
    capabilities.has("report-status-v2") ? "report-status-v2" : "report-status",
    "atomic",
  ];
  if (capabilities.has("side-band-64k")) words.push("side-band-64k");
  if (capabilities.has("object-format")) words.push("object-format=sha1");
  if (capabilities.has("agent")) words.push(`agent=${agent}`);
  return Buffer.concat([
    ...updates.map(({ ref, old, new: oid }, i) =>
      pktLine(`${old ?? ZERO_OID} ${oid} ${ref}${i === 0 ? `\0 ${words.join(" ")}` : ""}`)
    ),
    FLUSH,
  ]);
}

export async function readPushReport(
  reader: PktReader,
  capabilities: Capabilities,
  from: string,
): Promise<PushReport> {
  let remoteOutput = "";
  const say = (text: string) => {
    if (remoteOutput.length < MAX_OUTPUT) remoteOutput += text;
  };
  const lines = capabilities.has("side-band-64k")
    ? pktReader(sideband(reader, say, from), from)
    : reader;
  let unpack: string | null = null;
  const ok: string[] = [];
  const refused: { ref: string; reason: string }[] = [];
  for (;;) {
    const packet = await lines.packet();
    if (packet === null) throw cutOff(from, "stopped in the middle of its report");
    if (packet.kind === "flush") break;
    const text = pktText(packet);
    if (text.startsWith("ERR ")) throw saidError(from, text);
    if (unpack === null) {
      if (!text.startsWith("unpack ")) throw broken(from, "sends a malformed report");
      unpack = text.slice(7);
    } else if (text.startsWith("ok ")) ok.push(text.slice(3));
    else if (text.startsWith("ng ")) {
      const [ref = "", ...reason] = text.slice(3).split(" ");
      refused.push({ ref, reason: reason.join(" ") });
    } else if (!text.startsWith("option ")) throw broken(from, "sends a malformed report");
  }
  if (unpack === null) throw broken(from, "sends an empty report");
  return {
    unpack,
    ok,
    refused,
    remoteOutput: () => remoteOutput,
    async rest() {
      if (lines !== reader) { while (await lines.packet() !== null); }
      while (await reader.packet() !== null);
    },
  };
}
