/** What the queue commands share: which backend, in whose name, and how messages are printed. */
import { join } from "node:path";
import { isatty } from "node:tty";
import { AgentqError, isAgentqError } from "../../../src/errors.ts";
import type { QueueBackend } from "../../../src/queuefs/contract.ts";
import { quoted } from "../../../src/queuefs/names.ts";
import { openBackend } from "../../../src/queuefs/open.ts";
import { callerOwner } from "../../../src/queuefs/owner.ts";
import { bytesOf } from "../../../src/queuefs/payload.ts";
import type { Context } from "../../context.ts";
import { readStandardInput } from "../../input.ts";
import { safeJson } from "../../output/escape.ts";
import { takeConsole } from "../../output/console.ts";
import { isAnswerWhole, outputFault, writeOut } from "../../output/write.ts";
import type { Flags } from "../../spec.ts";
import { sourceOf } from "../../settings.ts";
import { asStateUnavailable } from "../../state.ts";
import { withCreateHint } from "./create-hint.ts";

/** The store that queues are kept in unless `--backend` names another place. */
export function defaultStore(context: Context): string {
  return join(context.stateDirectory, "store");
}

/**
 * Opens the backend that the flags name, runs `work`, and closes it whatever happens. A signal ends waiting
 * for a store's lock, unless the command is a `long` one that has to settle things after it: for that the opening alone.
 */
export async function withBackend<T>(
  context: Context,
  flags: Flags,
  work: (backend: QueueBackend) => Promise<T>,
  options: { create?: boolean; long?: boolean; open?: typeof openBackend } = {},
): Promise<T> {
  const url = String(flags.backend ?? `store:${defaultStore(context)}`);
  if (url.startsWith("memory:")) {
    throw whereSet(
      flags,
      new AgentqError(
        "backend-unsupported",
        "memory: queues end with the process that made them, so no second command could see them",
        { hint: "Use store:DIR, sqlite:FILE or redis://HOST; memory: is for the library." },
      ),
    );
  }
  const recoverStale = flags["recover-stale"] === true;
  takeConsole(flags.verbose === true);
  const backend = await (options.open ?? openBackend)(url, {
    create: options.create ?? false,
    ...(recoverStale ? { recoverStale } : {}),
    ...(options.long === true ? { openingSignal: context.signal } : { signal: context.signal }),
  }).catch((error) => {
    throw flags.backend === undefined
      ? asStateUnavailable(context.stateDirectory, withCreateHint(context, flags, error))
      : whereSet(flags, withCreateHint(context, flags, error));
  });
  try {
    // Whatever it took to get here: nothing has been done yet.
    context.signal.throwIfAborted();
    return await work(backend);
  } catch (error) {
    throw withCreateHint(context, flags, error);
  } finally {
    await backend.close();
  }
}

/**
 * The same error about the backend's address, which may hold a password and isn't repeated, with the place where it is
 * written when that isn't the command line.
 */
function whereSet(flags: Flags, error: unknown): unknown {
  const source = sourceOf(flags, "backend");
  if (source === null) return error;
  if (!isAgentqError(error, "usage", "config-invalid", "backend-unsupported")) return error;
  const { code, message, hint, retryable, details } = error;
  return new AgentqError(code, `${source}: ${message}`, {
    cause: error.cause ?? error,
    hint,
    retryable,
    ...(details === undefined ? {} : { details }),
  });
}

/** In whose name the command dequeues and settles. */
export function ownerOf(flags: Flags): string {
  return callerOwner(String(flags.owner ?? "cli"));
}

/** A flag in seconds as milliseconds; undefined where it isn't set. */
export function milliseconds(flags: Flags, name: string): number | undefined {
  const seconds = flags[name];
  return typeof seconds === "number" ? Math.round(seconds * 1000) : undefined;
}

/** DATA of the command line, or all of standard input where it is absent or `-`. */
export async function inputBytes(
  context: Context,
  given: string | undefined,
): Promise<Uint8Array> {
  if (given !== undefined && given !== "-") return bytesOf(given);
  if (isatty(0)) {
    throw new AgentqError("usage", "no data were given and standard input is a terminal");
  }
  return await readStandardInput(context.signal);
}

/** Says on stderr what about the backend endangers messages. */
export async function warn(context: Context, backend: QueueBackend): Promise<void> {
  if (context.quiet) return;
  for (const warning of await backend.warnings?.() ?? []) {
    context.progress.warn(`${backend.label}: ${warning}`);
  }
}

/** Prints documents, one JSON line each, also without `--json`: they are what is asked for. */
export function printLines(context: Context, documents: readonly unknown[]): void {
  context.progress.clear();
  writeOut(documents.map((document) => `${safeJson(document)}\n`).join(""));
}

/** How messages are taken for an answer, told, and given back where that couldn't be told. */
export interface Delivering<T> {
  readonly backend: QueueBackend;
  readonly queue: string;
  take(): Promise<T>;
  print(taken: T): void;
  giveBack(taken: T): Promise<unknown>;
  ids(taken: T): readonly string[];
}

/**
 * Before messages are taken for an answer: throws `io-error` where nothing could be told of them. Those that
 * were taken when a signal came go back, and nothing is told; what can't be given back is told. After it was
 * written, they are given back where the answer was lost, since nobody knows of the deliveries then; where that can't
 * be done it is `io-error` with their ids.
 */
export async function deliverable<T>(context: Context, how: Delivering<T>): Promise<void> {
  const fault = outputFault();
  if (fault !== null) {
    throw new AgentqError(
      "io-error",
      `nothing was taken: standard output can't be written: ${fault}`,
      {
        hint: "Give the command a standard output: what it takes has to be told to somebody.",
      },
    );
  }
  const taken = await how.take();
  const giveBack = () => how.giveBack(taken).then(() => true, () => false);
  const stopped = context.signal.aborted;
  if (stopped && await giveBack()) throw context.signal.reason;
  how.print(taken);
  if (isAnswerWhole()) return;
  const ids = how.ids(taken);
  if (ids.length === 0 || !stopped && await giveBack()) return;
  throw untold(how.backend, how.queue, ids);
}

function untold(backend: QueueBackend, queue: string, taken: readonly string[]): AgentqError {
  const named = taken.slice(0, 20).map(quoted).join(", ");
  const more = taken.length > 20 ? `, … (${taken.length} in all)` : "";
  const name = quoted(queue);
  return new AgentqError(
    "io-error",
    `standard output can't be written (${
      outputFault() ?? "nobody reads it"
    }), and what was taken from ` +
      `${name} couldn't be given back: ${named}${more}`,
    {
      hint: backend.kind === "v1"
        ? `Nothing gives them out again by itself: agentq queue messages ${queue} has what they hold; work on them ` +
          `and ack them, or put them in again (enqueue --id ID) and ack the old ones.`
        : "They come back when their lease runs out.",
      details: { queue, taken },
    },
  );
}
