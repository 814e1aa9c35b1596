/** The private keys of a user that can be used without asking for a passphrase. */
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Buffer } from "node:buffer";

/** In OpenSSH's order. */
export const usualKeys = (home: string): string[] =>
  ["id_rsa", "id_ecdsa", "id_ed25519"].map((name) => join(home, ".ssh", name));

export interface KeyFiles {
  readonly keys: readonly { readonly path: string; readonly data: Buffer }[];
  /** Files that are there but can't be used, each with the reason. */
  readonly passed: readonly string[];
}

/** @param readableKey whether a file's content is a private key that needs no passphrase */
export function keyFiles(
  paths: readonly string[],
  readableKey: (data: Buffer) => boolean,
): KeyFiles {
  const keys: { path: string; data: Buffer }[] = [];
  const passed: string[] = [];
  for (const path of paths) {
    let data: Buffer;
    try {
      if (process.platform !== "win32" && (statSync(path).mode & 0o077) !== 0) {
        passed.push(`${path}: others may read it`);
        continue;
      }
      data = readFileSync(path);
    } catch (error) {
      const { code } = error as { code?: string };
      if (code !== "ENOENT") passed.push(`${path}: ${code}`);
      continue;
    }
    if (readableKey(data)) keys.push({ path, data });
    else passed.push(`${path}: encrypted, or of an unknown kind`);
  }
  return { keys, passed };
}
