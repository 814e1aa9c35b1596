/** What a transport that keeps a connection gives: two streams to one git service, and how it ended. */
import { Buffer } from "node:buffer";
import type { Readable, Writable } from "node:stream";
import { AgentqError } from "../../errors.ts";

export type Service = "git-upload-pack" | "git-receive-pack";

/** Protocol 2 is offered as git offers it, insisted upon where the server drops such offers, or neither. */
export type Version2 = "offer" | "insist" | "no";

export interface Channel {
  /** Nobody listens to its data before `pipe` does: whoever did would have its first bytes to himself. */
  readonly readable: Readable;
  readonly writable: Writable;
  /**
   * Why it ended. Called once nothing more can be read; waits a moment for what there is to know.
   * @param opened whether the other side has said something in git's protocol
   */
  explain(opened: boolean): Promise<AgentqError>;
  /** What came beside the protocol, raw: the other side's stderr. */
  said(): string;
  /** Nothing more is asked: lets the other side finish, and ends all by force when it does not. */
  finish(): void;
  /** Ends everything at once. */
  destroy(): void;
}

/** How long {@link Channel.explain} waits for what a program that ends has to say, in milliseconds. */
export const EXPLAIN_MS = 10_000;

/** Opens a connection to one service of one repository. */
export interface Dial {
  readonly kind: "ssh" | "git";
  /** How the server is called in messages: its url without secrets. */
  readonly name: string;
  /** True where `insist` may help. */
  readonly insists: boolean;
  /** @throws `origin-unreachable`, `origin-timeout` and the transport's own */
  open(service: Service, version2: Version2, signal?: AbortSignal): Promise<Channel>;
  /** Ends what connections share. */
  close(): void;
}

/** Milliseconds. */
export interface StreamLimits {
  /** Until a connection stands. */
  readonly connectMs: number;
  /** Without a byte from the other side while one is waited for. */
  readonly idleMs: number;
  /** For one request with its whole answer. */
  readonly totalMs: number;
}

/** A channel that is read by pulling. Every call ends: by bytes, by the end, by a limit, by `fail`. */
export interface Pipe {
  /** The next bytes; null at the end. */
  read(): Promise<Buffer | null>;
  /** Resolves when the bytes are with the kernel, or queued for it in a bounded buffer. */
  write(data: Uint8Array): Promise<void>;
  /** Bytes read so far. */
  received(): number;
  /** True while nothing has gone wrong and the other side hasn't ended it. */
  usable(): boolean;
  /** Ends it, and every waiting call with this error. */
  fail(error: Error): void;
}

/** Bytes that may lie unread before the other side is asked to wait. */
const HIGH_WATER = 1024 * 1024;

/** @param firstMs how long the very first byte may take; null: as long as a person needs */
export function pipe(
  channel: Channel,
  name: string,
  limits: StreamLimits,
  firstMs: number | null,
): Pipe {
  const { readable, writable } = channel;
  const chunks: Buffer[] = [];
  let queued = 0;
  let received = 0;
  let ended = false;
  let failure: Error | null = null;
  let waiting = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const sleepers = new Set<() => void>();

  const notify = () => {
    const woken = [...sleepers];
    sleepers.clear();
    for (const wake of woken) wake();
  };
  const sleep = () => new Promise<void>((resolve) => sleepers.add(resolve));
  const fail = (error: Error) => {
    if (failure === null) {
      failure = error;
      channel.destroy();
    }
    clearTimeout(timer);
    notify();
  };
  /** The clock runs only while somebody waits for the other side, and anew with every sign of life. */
  const watch = () => {
    clearTimeout(timer);
    const ms = received === 0 ? firstMs : limits.idleMs;
    if (waiting === 0 || ms === null) return;
    timer = setTimeout(() => {
      const what = received === 0 ? "has not answered in" : "has been silent for";
      fail(new AgentqError("origin-timeout", `${name} ${what} ${ms / 1000} s.`));
    }, ms);
  };
  const during = async <T>(work: () => Promise<T>): Promise<T> => {
    if (waiting++ === 0) watch();
    try {
      return await work();
    } finally {
      if (--waiting === 0) watch();
    }
  };
  const end = () => {
    ended = true;
    notify();
  };

  readable.on("data", (chunk: Buffer) => {
    chunks.push(chunk);
    queued += chunk.length;
    received += chunk.length;
    if (queued > HIGH_WATER) readable.pause();
    watch();
    notify();
  });
  readable.on("end", end);
  readable.on("close", end);
  // An end like any other: what was behind it is asked of the channel.
  readable.on("error", end);
  let broken = false;
  const breakOff = () => {
    broken = true;
    notify();
  };
  writable.on("error", breakOff);
  writable.on("close", breakOff);
  let full = false;
  writable.on("drain", () => {
    full = false;
    watch();
    notify();
  });

  return {
    read: () =>
      during(async () => {
        while (chunks.length === 0) {
          if (failure) throw failure;
          if (ended) return null;
          await sleep();
        }
        const chunk = chunks.shift()!;
        queued -= chunk.length;
        if (queued <= HIGH_WATER / 2) readable.resume();
        return chunk;
      }),
    write: (data) =>
      during(async () => {
        if (failure) throw failure;
        if (broken) throw new AgentqError("origin-unreachable", `${name} takes nothing more.`);
        full = !writable.write(data);
        while (full && !broken && failure === null) await sleep();
        if (failure) throw failure;
        if (broken) throw new AgentqError("origin-unreachable", `${name} takes nothing more.`);
      }),
    received: () => received,
    usable: () => !ended && !broken && failure === null && chunks.length === 0,
    fail,
  };
}

/** Keeps the end of what the other side prints. */
export function keepTail(readable: Readable, max = 64 * 1024): () => string {
  let kept: Buffer = Buffer.alloc(0);
  readable.on("data", (chunk: Buffer) => {
    kept = Buffer.concat([kept, chunk]);
    if (kept.length > max) kept = Buffer.from(kept.subarray(kept.length - max));
  });
  readable.on("error", () => {});
  return () => kept.toString("utf8");
}
