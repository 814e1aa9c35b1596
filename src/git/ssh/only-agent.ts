/** An agent that offers only the keys of certain files: `IdentitiesOnly`, with encrypted files too. */
import { Buffer } from "node:buffer";
import { readFileSync } from "node:fs";

interface PublicKey {
  getPublicSSH(): Buffer;
}
type Listed = (error: Error | null | undefined, keys?: readonly PublicKey[]) => void;
interface Agent {
  getIdentities(done: Listed): void;
  sign(...args: unknown[]): void;
}

/** As much of the package `ssh2` as agents need. */
export interface Ssh2Agents {
  BaseAgent: new () => object;
  createAgent(path: string): Agent;
  utils: { parseKey(data: Buffer): unknown };
}

/** @param files private keys; the public one is beside each as `.pub`, or in it */
export function onlyAgent(ssh2: Ssh2Agents, socket: string, files: readonly string[]): object {
  const agent = ssh2.createAgent(socket);
  const wanted = files.flatMap((file) =>
    publicKey(ssh2, `${file}.pub`) ?? publicKey(ssh2, file) ?? []
  );
  return new class extends ssh2.BaseAgent {
    getIdentities(done: Listed) {
      agent.getIdentities((error, keys = []) =>
        done(
          error,
          keys.filter((key) => wanted.some((one) => one.equals(publicBytes(ssh2, key)))),
        )
      );
    }
    sign(...args: unknown[]) {
      agent.sign(...args);
    }
  }();
}

function publicKey(ssh2: Ssh2Agents, file: string): Buffer | null {
  let data: Buffer;
  try {
    data = readFileSync(file);
  } catch {
    return null;
  }
  const parsed = ssh2.utils.parseKey(data);
  return parsed instanceof Error ? null : publicBytes(ssh2, parsed);
}

/** Of a key in whatever form the agent lists it. */
function publicBytes(ssh2: Ssh2Agents, key: unknown): Buffer {
  if (Buffer.isBuffer(key)) return key;
  const { getPublicSSH } = key as Partial<PublicKey>;
  if (getPublicSSH) return getPublicSSH.call(key);
  return publicBytes(ssh2, ssh2.utils.parseKey(key as Buffer));
}
