/** Digests and random bytes. Bun's own hasher is there at once, where loading node:crypto takes time. */
import { Buffer } from "node:buffer";
import { nodeCrypto } from "./builtins.ts";

export type Algorithm = "sha1" | "sha256";

export interface Hasher {
  /** Text is hashed as UTF-8. */
  update(data: string | Uint8Array): Hasher;
  digest(): Buffer;
  digest(encoding: "hex"): string;
}

interface BunHashers {
  readonly CryptoHasher?: {
    new (algorithm: Algorithm): Hasher;
    hash(algorithm: Algorithm, data: string | Uint8Array, encoding: "hex"): string;
  };
}

const native = (globalThis as { Bun?: BunHashers }).Bun?.CryptoHasher;

export function createHash(algorithm: Algorithm): Hasher {
  return native ? new native(algorithm) : nodeCrypto().createHash(algorithm);
}

/** The digest of `data` in hex. */
export function hash(algorithm: Algorithm, data: string | Uint8Array): string {
  return native ? native.hash(algorithm, data, "hex") : nodeCrypto().hash(algorithm, data, "hex");
}

/** At most 65,536 bytes from the system's generator. */
export function randomBytes(count: number): Buffer<ArrayBuffer> {
  return crypto.getRandomValues(Buffer.alloc(count));
}
