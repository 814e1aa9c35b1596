/**
 * The ssh agent as OpenSSH uses it: the keys of the configured files first, encrypted ones too, and with
 * `IdentitiesOnly` no others. One that hangs is given up.
 */
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

export interface ChosenAgentOptions {
  /** Private keys; the public one is beside each as `.pub`, or in it. */
  readonly files: readonly string[];
  /** True: keys of other files are not offered. */
  readonly only: boolean;
  /** Milliseconds in which the agent must have listed its keys. */
  readonly listMs: number;
  /** Called with true when the agent is asked to sign, with false when it has answered. */
  readonly onSigning: (waiting: boolean) => void;
}

/** The agent at `socket`, the keys of `files` first: a server gives up after a few. */
export function chosenAgent(ssh2: Ssh2Agents, socket: string, options: ChosenAgentOptions): object {
  const { files, only, listMs, onSigning } = options;
  const agent = ssh2.createAgent(socket);
  const wanted = files.flatMap((file) =>
    publicKey(ssh2, `${file}.pub`) ?? publicKey(ssh2, file) ?? []
  );
  const named = (key: PublicKey) => wanted.some((one) => one.equals(publicBytes(ssh2, key)));
  return new class extends ssh2.BaseAgent {
    getIdentities(done: Listed) {
      let answered = false;
      const answer: Listed = (error, keys = []) => {
        if (answered) return;
        answered = true;
        clearTimeout(timer);
        if (error) return done(error);
        const others = only ? [] : keys.filter((key) => !named(key));
        done(null, [...keys.filter(named), ...others]);
      };
      const timer = setTimeout(
        () => answer(new Error(`it listed no keys in ${listMs / 1000} s`)),
        listMs,
      );
      agent.getIdentities(answer);
    }
    /** Some agents ask somebody for a touch or a word: it may take as long as the connection may. */
    sign(...args: unknown[]) {
      const done = args.pop() as (...answer: unknown[]) => void;
      onSigning(true);
      agent.sign(...args, (...answer: unknown[]) => {
        onSigning(false);
        done(...answer);
      });
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
