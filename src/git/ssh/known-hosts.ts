/**
 * The host keys that this user or the machine's operator vouched for, in OpenSSH's known_hosts format:
 *
 *   [@revoked|@cert-authority] names type base64 …      names: a,b,*.c,!d,[host]:port or |1|salt|hash
 */
import { Buffer } from "node:buffer";
import { readFileSync } from "node:fs";
import { nodeCrypto } from "../../platform/builtins.ts";

export interface HostKey {
  readonly type: string;
  readonly key: Buffer;
  readonly revoked: boolean;
}

/**
 * The keys in `text` for a host, by the name it is known by: `host`, or `[host]:port`, in lower case.
 * Entries for certificate authorities don't count.
 */
export function knownHostKeys(text: string, name: string): HostKey[] {
  const keys: HostKey[] = [];
  for (const line of text.split(/\r?\n/)) {
    const words = line.trim().split(/\s+/);
    const marker = words[0]?.startsWith("@") ? words.shift() : undefined;
    const [names, type, base64] = words;
    if (!names || !type || !base64 || names.startsWith("#")) continue;
    if (marker !== undefined && marker !== "@revoked") continue;
    if (!named(names, name)) continue;
    const key = Buffer.from(base64, "base64");
    if (keyType(key) === type) keys.push({ type, key, revoked: marker !== undefined });
  }
  return keys;
}

/** Everything that files say about a host. */
export function readKnownHosts(files: readonly string[], name: string): HostKey[] {
  return files.flatMap((file) => {
    try {
      return knownHostKeys(readFileSync(file, "utf8"), name);
    } catch {
      return [];
    }
  });
}

export type Verdict = "known" | "unknown" | "changed" | "revoked";

/**
 * What the known keys say to the one that the host shows.
 *
 * @param portless keys of the host without its port. As with OpenSSH one of these vouches for a server
 *   at another port where no key is known for that, and a different one there speaks against nothing.
 */
export function judgeHostKey(
  known: readonly HostKey[],
  shown: Buffer,
  portless: readonly HostKey[] = [],
): Verdict {
  if (known.length === 0 && portless.length > 0) {
    const verdict = judgeHostKey(portless, shown);
    return verdict === "changed" ? "unknown" : verdict;
  }
  const same = known.filter(({ key }) => key.equals(shown));
  if (same.some(({ revoked }) => revoked)) return "revoked";
  if (same.length > 0) return "known";
  return known.some(({ revoked }) => !revoked) ? "changed" : "unknown";
}

function named(names: string, name: string): boolean {
  if (names.startsWith("|1|")) return hashedName(names, name);
  let fits = false;
  for (const pattern of names.toLowerCase().split(",")) {
    const negated = pattern.startsWith("!");
    if (!matchesPattern(negated ? pattern.slice(1) : pattern, name)) continue;
    if (negated) return false;
    fits = true;
  }
  return fits;
}

function hashedName(names: string, name: string): boolean {
  const [, , salt = "", hash = ""] = names.split("|");
  const made = nodeCrypto().createHmac("sha1", Buffer.from(salt, "base64")).update(name).digest();
  return made.equals(Buffer.from(hash, "base64"));
}

/** `*` any run of characters, `?` any one. */
export function matchesPattern(pattern: string, name: string): boolean {
  let p = 0;
  let star = -1;
  let resume = 0;
  for (let n = 0; n < name.length;) {
    if (pattern[p] === "*") {
      star = p++;
      resume = n;
    } else if (pattern[p] === "?" || pattern[p] === name[n]) {
      p++;
      n++;
    } else if (star >= 0) {
      p = star + 1;
      n = ++resume;
    } else return false;
  }
  while (pattern[p] === "*") p++;
  return p === pattern.length;
}

/** The type that a key in ssh's wire format says it has. */
function keyType(key: Buffer): string | null {
  if (key.length < 4) return null;
  const length = key.readUInt32BE(0);
  return length > 64 ? null : key.toString("latin1", 4, 4 + length);
}
