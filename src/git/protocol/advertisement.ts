/**
 * What a git server says first: protocol 2 lists what it can do; protocols 0 and 1 list every ref, with
 * the capabilities behind the first.
 */
import { AgentqError } from "../../errors.ts";
import { isOid, ZERO_OID } from "../oid.ts";
import { cutOff, type PktReader, pktText } from "../pkt-line.ts";
import type { Oid, RefSnapshot } from "../types.ts";

export type Advertisement =
  | { readonly version: 2; readonly capabilities: ReadonlyMap<string, string> }
  | {
    readonly version: 0 | 1;
    readonly capabilities: ReadonlyMap<string, string>;
    readonly snapshot: RefSnapshot;
  };

/** The refs that an advertisement lists; null for one of protocol 2. */
export function listedBy(advertisement: Advertisement): ReadonlyMap<string, Oid> | null {
  return advertisement.version === 2 ? null : advertisement.snapshot.refs;
}

/** Refs of one advertisement that are kept in memory. */
const MAX_REFS = 5_000_000;

/**
 * Reads an advertisement. Over HTTP it begins with the name of the service.
 * @throws `repository-unsupported` for an object format that isn't SHA-1, `protocol-error`
 */
export async function readAdvertisement(
  reader: PktReader,
  service: string,
  from: string,
  http: boolean,
): Promise<Advertisement> {
  let packet = await reader.packet();
  if (http && packet && pktText(packet) === `# service=${service}`) {
    packet = await reader.packet();
    if (packet?.kind !== "flush") throw broken(from, "begins its advertisement in a wrong way");
    packet = await reader.packet();
  } else if (http && packet && !/^(version [12]|ERR .*)$/s.test(pktText(packet))) {
    // Only newer protocols may leave out the name of the service.
    throw broken(from, "begins its advertisement in a wrong way");
  }
  if (packet === null) throw cutOff(from, "ended before its advertisement");
  let text = pktText(packet);
  if (text.startsWith("ERR ")) throw saidError(from, text);
  if (text === "version 2") {
    const capabilities = new Map<string, string>();
    for (;;) {
      packet = await reader.packet();
      if (packet === null) throw cutOff(from, "stopped in the middle of its advertisement");
      if (packet.kind === "flush") break;
      addCapability(capabilities, pktText(packet));
    }
    checkFormat(capabilities, from);
    return { version: 2, capabilities };
  }
  let version: 0 | 1 = 0;
  if (text === "version 1") {
    version = 1;
    packet = await reader.packet();
  }
  const capabilities = new Map<string, string>();
  const symrefs = new Map<string, string>();
  const refs = new Map<string, Oid>();
  for (let first = true; packet?.kind === "data"; first = false) {
    text = packet.payload.toString("utf8").replace(/\n$/, "");
    if (text.startsWith("ERR ")) throw saidError(from, text);
    if (first) {
      const nul = text.indexOf("\0");
      for (const word of (nul < 0 ? "" : text.slice(nul + 1)).split(" ").filter(Boolean)) {
        const symref = /^symref=([^:]+):(.+)$/.exec(word);
        if (symref) symrefs.set(symref[1]!, symref[2]!);
        else addCapability(capabilities, word);
      }
      checkFormat(capabilities, from);
      if (nul >= 0) text = text.slice(0, nul);
    }
    const oid = text.slice(0, 40);
    const name = text.slice(41);
    if (text.startsWith("shallow ")) {
      // The server's repository is itself shallow: no ref.
    } else if (!isOid(oid) || text[40] !== " ") throw broken(from, "lists a malformed ref");
    else if (oid !== ZERO_OID && name !== ".have" && !name.endsWith("^{}")) refs.set(name, oid);
    if (refs.size > MAX_REFS) throw broken(from, "lists too many refs");
    packet = await reader.packet();
  }
  if (packet === null) throw cutOff(from, "stopped in the middle of its advertisement");
  return { version, capabilities, snapshot: { refs, head: symrefs.get("HEAD") ?? null } };
}

function addCapability(capabilities: Map<string, string>, word: string): void {
  const equals = word.indexOf("=");
  if (equals < 0) capabilities.set(word, "");
  else capabilities.set(word.slice(0, equals), word.slice(equals + 1));
}

function checkFormat(capabilities: ReadonlyMap<string, string>, from: string): void {
  const format = capabilities.get("object-format") ?? "sha1";
  if (format === "sha1") return;
  throw new AgentqError(
    "repository-unsupported",
    `${from} has a repository with object format ${JSON.stringify(format)}.`,
  );
}

/** A server's `ERR` packet. */
export function saidError(from: string, text: string): AgentqError {
  const words = text.replace(/^ERR /, "").trim();
  return new AgentqError("server-error", `${from} says: ${JSON.stringify(words.slice(0, 1000))}.`, {
    details: { remoteOutput: words },
    retryable: false,
  });
}

export function broken(from: string, what: string): AgentqError {
  return new AgentqError("protocol-error", `${from} ${what}.`);
}
