/**
 * ssh without a program: a channel for each service, on as few logins as will do. Host keys must be known,
 * keys come from the agent and ~/.ssh, nothing is asked of anybody. ~/.ssh/config holds, as far as it goes.
 */
import type { Buffer } from "node:buffer";
import { homedir, userInfo } from "node:os";
import { AgentqError } from "../../errors.ts";
import { nameOfUser } from "../../platform/users.ts";
import {
  type Channel,
  type Dial,
  EXPLAIN_MS,
  keepTail,
  type Service,
  type Version2,
} from "../stream/channel.ts";
import type { SshTarget } from "./command.ts";
import { hostKeyChanged, hostKeyRevoked, hostKeyUnknown, notAdmitted, sshFault } from "./faults.ts";
import { chosenAgent, type Ssh2Agents } from "./chosen-agent.ts";
import { sshSettings } from "./client-settings.ts";
import { keyFiles, usualKeys } from "./keys.ts";
import { type ExecStream, type LoginClient, loginsOf } from "./logins.ts";
import { judgeHostKey, readKnownHosts, type Verdict } from "./known-hosts.ts";
import { whyUnreachable } from "../unreachable.ts";

export interface EmbeddedSshOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly connectMs: number;
  readonly remoteCommand: (service: Service, version2: Version2) => string;
}

/** As much of the package `ssh2` as is used here. */
interface Client extends LoginClient {
  on(event: "error", listener: (error: SshError) => void): this;
  once(event: "ready" | "close", listener: () => void): this;
  connect(config: Record<string, unknown>): void;
  destroy(): void;
}
type SshError = Error & { level?: string; code?: string | number };
interface Ssh2 extends Ssh2Agents {
  Client: new () => Client;
}

/** How long an ssh agent may take to list its keys, in milliseconds. */
const AGENT_LIST_MS = 5_000;

/** Signature algorithms of host keys, by the type of key. */
const ALGORITHMS: Readonly<Record<string, readonly string[]>> = {
  "ssh-ed25519": ["ssh-ed25519"],
  "ecdsa-sha2-nistp256": ["ecdsa-sha2-nistp256"],
  "ecdsa-sha2-nistp384": ["ecdsa-sha2-nistp384"],
  "ecdsa-sha2-nistp521": ["ecdsa-sha2-nistp521"],
  "ssh-rsa": ["rsa-sha2-512", "rsa-sha2-256"],
};

export async function embeddedSshDial(
  target: SshTarget,
  name: string,
  options: EmbeddedSshOptions,
): Promise<Dial> {
  const loaded = await import("ssh2") as unknown as Ssh2 & { default?: Ssh2 };
  const ssh2 = loaded.default ?? loaded;
  const logins = loginsOf({
    name,
    channelMs: options.connectMs,
    connect: (onEnd) => connect(ssh2, target, name, options, onEnd),
  });
  return {
    kind: "ssh",
    name,
    insists: true,
    async open(service, version2, signal) {
      const command = options.remoteCommand(service, version2);
      const env: Record<string, string> = version2 === "offer" ? { GIT_PROTOCOL: "version=2" } : {};
      return execChannel(await logins.exec(command, env, signal), name, command);
    },
    close: () => logins.close(),
  };
}

function connect(
  ssh2: Ssh2,
  target: SshTarget,
  name: string,
  { env, connectMs: patience }: EmbeddedSshOptions,
  onEnd: () => void,
): Promise<Client> {
  const { Client, utils } = ssh2;
  const home = env.HOME || homedir();
  const localUser = loginName(env);
  const settings = sshSettings(target, { env, home, localUser, connectMs: patience });
  const { host, port, user: username, agent, connectMs } = settings;
  const known = readKnownHosts(settings.knownHosts, settings.knownAs);
  const portless = settings.alsoKnownAs === null
    ? []
    : readKnownHosts(settings.knownHosts, settings.alsoKnownAs);
  const paths = settings.identityFiles ?? usualKeys(home);
  const { keys, passed } = keyFiles(paths, (data) => !(utils.parseKey(data) instanceof Error));
  const chosen = agent === null ? null : chosenAgent(ssh2, agent, {
    files: paths,
    only: settings.identitiesOnly,
    listMs: Math.min(AGENT_LIST_MS, connectMs / 2),
    onSigning: (waiting) => tried.signing = waiting,
  });
  const ways: unknown[] = [
    ...(chosen ? [{ type: "agent", username, agent: chosen }] : []),
    ...keys.map(({ data }) => ({ type: "publickey", username, key: data })),
  ];
  let verdict: Verdict | null = null;
  const tried: Tried = { passed, offered: ways.length, asked: false, agent: null, signing: false };
  return new Promise((resolve, reject) => {
    const client = new Client();
    const fail = (error: AgentqError) => {
      client.destroy();
      reject(error);
    };
    client.once("ready", () => resolve(client));
    client.once("close", () => {
      onEnd();
      // Once it stood, this rejects nothing any more.
      reject(new AgentqError("origin-unreachable", `${name} hung up.`));
    });
    // Once it stood, an error ends the channels, and they tell.
    client.on("error", (error) => {
      // An agent that is gone, or doesn't sign: the next way in is tried.
      if (error.level === "agent") {
        tried.agent = error.message;
        return;
      }
      onEnd();
      fail(connectError(error, name, verdict, tried, connectMs));
    });
    // A host that is known by one kind of key is asked for that kind.
    const preferred = [
      ...new Set([...known, ...portless].flatMap(({ type }) => ALGORITHMS[type] ?? [])),
    ];
    const others = Object.values(ALGORITHMS).flat().filter((one) => !preferred.includes(one));
    const queue = [...ways];
    client.connect({
      host,
      port,
      username,
      readyTimeout: connectMs,
      keepaliveInterval: 30_000,
      algorithms: { serverHostKey: [...preferred, ...others] },
      hostVerifier: (key: Buffer) => (verdict = judgeHostKey(known, key, portless)) === "known",
      authHandler: () => {
        tried.asked = true;
        return queue.shift() ?? false;
      },
    });
  });
}

/** Who runs this. */
function loginName(env: EmbeddedSshOptions["env"]): string {
  const uid = process.getuid?.();
  return env.LOGNAME || env.USER || (uid === undefined ? null : nameOfUser(uid)) ||
    userInfo().username;
}

/** What was tried to get in. */
interface Tried {
  /** Key files that were passed over, and why. */
  readonly passed: readonly string[];
  /** Ways in: keys, and the agent as one. */
  readonly offered: number;
  /** True once the server is asking who this is. */
  asked: boolean;
  /** Why the agent couldn't be asked. */
  agent: string | null;
  /** True while the agent is to sign. */
  signing: boolean;
}

function connectError(
  error: SshError,
  name: string,
  verdict: Verdict | null,
  tried: Tried,
  connectMs: number,
): AgentqError {
  if (verdict === "unknown") return hostKeyUnknown(name, {});
  if (verdict === "changed") return hostKeyChanged(name, {});
  if (verdict === "revoked") return hostKeyRevoked(name, {});
  // The server ends it by itself after a few keys: the number of its reason says no more than that.
  const tooMany = tried.asked && /too many authentication failures/i.test(error.message);
  if (error.level === "client-authentication" || tooMany) {
    return notAdmitted(name, {
      offered: tried.offered,
      ...(tried.passed.length > 0 ? { passedOver: tried.passed } : {}),
      ...(tried.agent === null ? {} : { agent: tried.agent }),
      ...(tooMany ? { remoteOutput: error.message } : {}),
    });
  }
  if (error.level === "client-timeout" && tried.signing) {
    return notAdmitted(name, { offered: tried.offered, agent: "it did not sign in time" });
  }
  if (error.level === "client-timeout") {
    return new AgentqError(
      "origin-timeout",
      `${name} did not accept a connection in ${connectMs / 1000} s.`,
      { cause: error },
    );
  }
  return new AgentqError("origin-unreachable", `Can't reach ${name}: ${whyUnreachable(error)}.`, {
    cause: error,
    details: { errno: error.code },
  });
}

function execChannel(stream: ExecStream, name: string, command: string): Channel {
  const said = keepTail(stream.stderr);
  let exit: number | null = null;
  let killedBy: string | null = null;
  stream.on("error", () => {});
  stream.once("exit", (code: number | null, signal?: string) => {
    exit = code;
    killedBy = signal ?? null;
  });
  const closed = new Promise<void>((resolve) => stream.once("close", () => resolve()));
  return {
    readable: stream,
    writable: stream,
    async explain(opened) {
      const patience = new Promise<void>((resolve) => setTimeout(resolve, EXPLAIN_MS).unref?.());
      await Promise.race([closed, patience]);
      if (exit === null && killedBy === null) {
        return new AgentqError("origin-unreachable", `The connection to ${name} broke.`);
      }
      return sshFault({ exit, killedBy, stderr: said(), name, command, opened });
    },
    said,
    finish() {
      stream.end();
      stream.resume();
      stream.stderr.resume();
      setTimeout(() => stream.destroy(), 1000).unref?.();
    },
    destroy: () => void stream.destroy(),
  };
}
