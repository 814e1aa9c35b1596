/**
 * The logins of the embedded client on one server, and the channels on them: one login for everything, as
 * long as the server lets it have more channels (sshd: `MaxSessions`). A login that is refused one
 * keeps those it has, and the next goes to another login; how many there may be is kept in mind.
 */
import type { Duplex, Readable } from "node:stream";
import { AgentqError } from "../../errors.ts";
import { abortReason } from "../../platform/clock.ts";

/** As much of a client of the package `ssh2` as is used here. */
export interface LoginClient {
  exec(
    command: string,
    options: { env?: Record<string, string> },
    done: (error: Error | undefined, stream: ExecStream) => void,
  ): void;
  end(): void;
}
export interface ExecStream extends Duplex {
  readonly stderr: Readable;
}

/** One connection, logged in or about to be. */
interface Login<C> {
  readonly client: Promise<C>;
  /** Channels that are open on it, or being opened. */
  channels: number;
  /** True once it has had a channel. */
  proven: boolean;
}

export interface LoginsOptions<C> {
  /** How the server is called in messages. */
  readonly name: string;
  /** How long the server may take to open a channel, in milliseconds. */
  readonly channelMs: number;
  /** Logs in; `onEnd` is called when that connection is over. */
  readonly connect: (onEnd: () => void) => Promise<C>;
}

export interface Logins {
  /** Runs a command over a channel of its own. @throws what `connect` throws, `origin-unreachable`, `origin-timeout` */
  exec(
    command: string,
    env: Record<string, string>,
    signal: AbortSignal | undefined,
  ): Promise<ExecStream>;
  close(): void;
}

export function loginsOf<C extends LoginClient>(options: LoginsOptions<C>): Logins {
  const { name } = options;
  const logins = new Set<Login<C>>();
  /** So many channels at a time the server has let one login have at least, and not one more. */
  let limit = Infinity;

  function login(): Login<C> {
    const made: Login<C> = {
      // Later, so that what `connect` calls finds it in the set.
      client: Promise.resolve().then(() => options.connect(() => void logins.delete(made))),
      channels: 0,
      proven: false,
    };
    logins.add(made);
    made.client.catch(() => logins.delete(made));
    return made;
  }

  /** One with nothing to do is kept for what comes next. */
  function release(from: Login<C>): void {
    from.channels--;
    const idle = [...logins].filter(({ channels }) => channels === 0);
    if (from.channels > 0 || idle.length < 2) return;
    logins.delete(from);
    from.client.then((client) => client.end(), () => {});
  }

  return {
    async exec(command, env, signal) {
      const refused = new Set<Login<C>>();
      for (;;) {
        const on = [...logins].find((one) => one.channels < limit && !refused.has(one)) ?? login();
        on.channels++;
        let stream: ExecStream;
        try {
          const client = await untilAborted(on.client, signal);
          stream = await untilAborted(opened(client, command, env, options), signal, (late) => {
            late.destroy();
          });
        } catch (error) {
          release(on);
          if (!isRefused(error) && !isNotConnected(error)) throw error;
          // A channel that has just ended may still be counted over there.
          if (isRefused(error)) limit = Math.min(limit, Math.max(1, on.channels));
          else logins.delete(on);
          refused.add(on);
          if (on.proven) continue;
          throw new AgentqError(
            "origin-unreachable",
            `${name} opens no channel: ${(error as Error).message}.`,
            {
              cause: error,
              // Nothing was sent, and it is no whim: a login that had no other channel was refused this one.
              retryable: false,
              hint: "The server lets this account open no session: see sshd's MaxSessions there.",
            },
          );
        }
        on.proven = true;
        stream.once("close", () => release(on));
        return stream;
      }
    },
    close() {
      for (const { client } of logins) client.then((one) => one.end(), () => {});
      logins.clear();
    },
  };
}

/** The server's no to a channel, which has a reason; others have none. */
function isRefused(error: unknown): boolean {
  return error instanceof Error && typeof (error as { reason?: unknown }).reason === "number";
}

/** The client found its connection gone. */
function isNotConnected(error: unknown): boolean {
  return error instanceof Error && error.message === "Not connected";
}

function opened(
  client: LoginClient,
  command: string,
  env: Record<string, string>,
  { name, channelMs }: Pick<LoginsOptions<LoginClient>, "name" | "channelMs">,
): Promise<ExecStream> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      late = true;
      const seconds = channelMs / 1000;
      reject(new AgentqError("origin-timeout", `${name} opened no channel in ${seconds} s.`));
    }, channelMs);
    let late = false;
    client.exec(command, { env }, (error, stream) => {
      clearTimeout(timer);
      if (late) stream?.destroy();
      else if (!error) resolve(stream);
      else if (isRefused(error) || isNotConnected(error)) reject(error);
      else {
        reject(
          new AgentqError("origin-unreachable", `${name} runs no command: ${error.message}.`, {
            cause: error,
          }),
        );
      }
    });
  });
}

/** @param late takes what comes after the signal was aborted */
function untilAborted<T>(
  work: Promise<T>,
  signal: AbortSignal | undefined,
  late: (value: T) => void = () => {},
): Promise<T> {
  if (signal === undefined) return work;
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      reject(abortReason(signal));
      work.then(late, () => {});
    };
    if (signal.aborted) return onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
