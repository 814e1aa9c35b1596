/**
 * The requests to git-upload-pack: listing refs and fetching packs, in protocol 2 and in 0/1. Each is
 * one request with one answer; everything the other side must know is said at once, with `done`.
 */
import { Buffer } from "node:buffer";
import { isOid } from "../oid.ts";
import { cutOff, DELIM, FLUSH, pktLine, type PktReader, pktText, sideband } from "../pkt-line.ts";
import type { Oid, RefSnapshot } from "../types.ts";
import { broken, saidError } from "./advertisement.ts";

type Capabilities = ReadonlyMap<string, string>;

export interface FetchRequest {
  readonly wants: readonly Oid[];
  readonly haves: readonly Oid[];
  /** Commits whose parents the asking side lacks though it has the commits: a shallow clone's. */
  readonly shallow?: readonly Oid[];
  /** Only this many generations of commits. */
  readonly depth?: number;
  /** Commits alone, without trees; only where the server filters. */
  readonly commitsOnly?: boolean;
  /** False where the asking side may lack what the haves reach: no deltas against that. */
  readonly thin?: boolean;
}

/** Haves beyond these say little that the first ones didn't. */
const MAX_HAVES = 1024;

function command(name: string, capabilities: Capabilities, agent: string): Buffer[] {
  return [
    pktLine(`command=${name}\n`),
    pktLine(`agent=${agent}\n`),
    ...(capabilities.has("object-format") ? [pktLine("object-format=sha1\n")] : []),
    DELIM,
  ];
}

/** Protocol 2: HEAD and the refs that begin with one of the prefixes. */
export function lsRefsRequest(
  prefixes: readonly string[],
  capabilities: Capabilities,
  agent: string,
): Buffer {
  const unborn = (capabilities.get("ls-refs") ?? "").split(" ").includes("unborn");
  return Buffer.concat([
    ...command("ls-refs", capabilities, agent),
    pktLine("symrefs\n"),
    ...(unborn ? [pktLine("unborn\n")] : []),
    pktLine("ref-prefix HEAD\n"),
    ...prefixes.map((prefix) => pktLine(`ref-prefix ${prefix}\n`)),
    FLUSH,
  ]);
}

export async function readLsRefs(reader: PktReader, from: string): Promise<RefSnapshot> {
  const refs = new Map<string, Oid>();
  let head: string | null = null;
  for (;;) {
    const packet = await reader.packet();
    if (packet === null) throw cutOff(from, "stopped in the middle of its list of refs");
    if (packet.kind === "flush") return { refs, head };
    const text = pktText(packet);
    if (text.startsWith("ERR ")) throw saidError(from, text);
    const [oid = "", name = "", ...attributes] = text.split(" ");
    const target = attributes.find((word) => word.startsWith("symref-target:"))?.slice(14) ?? null;
    if (name === "HEAD") head = target;
    if (oid === "unborn") continue;
    if (!isOid(oid) || name === "") throw broken(from, "lists a malformed ref");
    refs.set(name, oid);
  }
}

/** True when the server can leave out everything but commits. */
export function canFilter(version: number, capabilities: Capabilities): boolean {
  return version === 2
    ? (capabilities.get("fetch") ?? "").split(" ").includes("filter")
    : capabilities.has("filter");
}

export function fetchRequest(
  version: number,
  request: FetchRequest,
  capabilities: Capabilities,
  agent: string,
): Buffer {
  const haves = request.haves.slice(0, MAX_HAVES).map((oid) => pktLine(`have ${oid}\n`));
  const shallow = (request.shallow ?? []).map((oid) => pktLine(`shallow ${oid}\n`));
  const filter = request.commitsOnly && canFilter(version, capabilities);
  const isAllowed = (word: string) => word !== "thin-pack" || request.thin !== false;
  if (version === 2) {
    return Buffer.concat([
      ...command("fetch", capabilities, agent),
      ...["thin-pack", "no-progress", "ofs-delta"].filter(isAllowed)
        .map((word) => pktLine(`${word}\n`)),
      ...request.wants.map((oid) => pktLine(`want ${oid}\n`)),
      ...shallow,
      ...(request.depth === undefined ? [] : [pktLine(`deepen ${request.depth}\n`)]),
      ...(filter ? [pktLine("filter tree:0\n")] : []),
      ...haves,
      pktLine("done\n"),
      FLUSH,
    ]);
  }
  // multi_ack_detailed: without it the answer has as many ACKs as the order of the haves makes it have.
  const wanted = ["multi_ack_detailed", "side-band-64k", "thin-pack", "no-progress", "ofs-delta"]
    .concat(request.depth === undefined && shallow.length === 0 ? [] : ["shallow"])
    .concat(filter ? ["filter"] : [])
    .filter((word) => capabilities.has(word) && isAllowed(word));
  if (capabilities.has("agent")) wanted.push(`agent=${agent}`);
  return Buffer.concat([
    ...request.wants.map((oid, i) =>
      pktLine(`want ${oid}${i === 0 ? ` ${wanted.join(" ")}` : ""}\n`)
    ),
    ...shallow,
    ...(request.depth === undefined ? [] : [pktLine(`deepen ${request.depth}\n`)]),
    ...(filter ? [pktLine("filter tree:0\n")] : []),
    FLUSH,
    ...haves,
    pktLine("done\n"),
  ]);
}

/** True when the server can be asked which commits it has, without fetching any. */
export function canNegotiate(version: number, capabilities: Capabilities): boolean {
  return version === 2
    ? (capabilities.get("fetch") ?? "").split(" ").includes("wait-for-done")
    : capabilities.has("multi_ack_detailed");
}

/**
 * Which of these commits does the server have? In protocol 0 something must be wanted before that can be asked:
 * `want`, which its refs name. Nothing is sent, since nobody says `done`.
 */
export function negotiationRequest(
  version: number,
  want: Oid,
  haves: readonly Oid[],
  capabilities: Capabilities,
  agent: string,
): Buffer {
  const asked = haves.slice(0, MAX_HAVES).map((oid) => pktLine(`have ${oid}\n`));
  if (version === 2) {
    return Buffer.concat([
      ...command("fetch", capabilities, agent),
      pktLine("wait-for-done\n"),
      ...asked,
      FLUSH,
    ]);
  }
  const words = ["multi_ack_detailed", ...capabilities.has("agent") ? [`agent=${agent}`] : []];
  return Buffer.concat([pktLine(`want ${want} ${words.join(" ")}\n`), FLUSH, ...asked, FLUSH]);
}

/** The commits that the server has. */
export async function readNegotiation(
  version: number,
  reader: PktReader,
  from: string,
): Promise<Oid[]> {
  const common: Oid[] = [];
  for (;;) {
    const packet = await reader.packet();
    if (packet === null) throw cutOff(from, "stopped in the middle of its answer");
    if (packet.kind === "flush") return common;
    const text = pktText(packet);
    if (text.startsWith("ERR ")) throw saidError(from, text);
    if (version !== 2 && text === "NAK") return common;
    // In the older protocol "ready" may name what the server doesn't have.
    const had = version === 2 ? /^ACK ([0-9a-f]{40})/ : /^ACK ([0-9a-f]{40}) common$/;
    const acknowledged = had.exec(text)?.[1];
    if (acknowledged !== undefined) common.push(acknowledged);
  }
}

/** The pack in the answer to a fetch, as it arrives. What the server says meanwhile is dropped. */
export async function* readFetch(
  version: number,
  reader: PktReader,
  capabilities: Capabilities,
  from: string,
): AsyncGenerator<Buffer, void, undefined> {
  if (version === 2) {
    for (;;) {
      const packet = await reader.packet();
      if (packet === null) throw cutOff(from, "stopped in the middle of its answer");
      const text = pktText(packet);
      if (text.startsWith("ERR ")) throw saidError(from, text);
      if (text === "packfile") break;
    }
    yield* sideband(reader, () => {}, from);
    return;
  }
  const banded = capabilities.has("side-band-64k");
  for (;;) {
    const packet = await reader.packet();
    if (packet === null) throw cutOff(from, "stopped in the middle of its answer");
    if (packet.kind !== "data") continue; // the end of the shallow section
    const text = pktText(packet);
    if (text.startsWith("ERR ")) throw saidError(from, text);
    if (text.startsWith("shallow ") || text.startsWith("unshallow ")) continue;
    // One line for each have in common, then one without a remark, or that there is none.
    if (/^ACK [0-9a-f]+ (common|continue|ready)$/.test(text)) continue;
    if (text === "NAK" || text.startsWith("ACK ")) break;
    throw broken(from, "answers a fetch with something unknown");
  }
  if (banded) yield* sideband(withoutAcks(reader), () => {}, from);
  else yield* reader.rest();
}

/** A server without multi_ack_detailed may say ACK again; no side band begins like that. */
function withoutAcks(reader: PktReader): PktReader {
  return {
    ...reader,
    async packet() {
      for (;;) {
        const packet = await reader.packet();
        if (packet?.kind !== "data" || packet.payload.toString("latin1", 0, 4) !== "ACK ") {
          return packet;
        }
      }
    },
  };
}
