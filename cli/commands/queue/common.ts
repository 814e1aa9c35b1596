/** What the queue commands share: which backend, in whose name, and how messages are printed. */
import { Buffer } from "node:buffer";
import { join } from "node:path";
import process from "node:process";
import { AgentqError } from "../../../src/errors.ts";
import type { QueueBackend } from "../../../src/queuefs/contract.ts";
import { openBackend } from "../../../src/queuefs/open.ts";
import { callerOwner } from "../../../src/queuefs/owner.ts";
import { bytesOf } from "../../../src/queuefs/payload.ts";
import type { Context } from "../../context.ts";
import { safeJson } from "../../output/escape.ts";
import { writeOut } from "../../output/write.ts";
import type { Flags } from "../../spec.ts";

/** The store that queues are kept in unless `--backend` names another place. */
export function defaultStore(context: Context): string {
  return join(context.stateDirectory, "store");
}

/** Opens the backend that the flags name, runs `work`, and closes it whatever happens. */
export async function withBackend<T>(
  context: Context,
  flags: Flags,
  work: (backend: QueueBackend) => Promise<T>,
  options: { create?: boolean } = {},
): Promise<T> {
  const url = String(flags.backend ?? `store:${defaultStore(context)}`);
  if (url.startsWith("memory:")) {
    throw new AgentqError(
      "backend-unsupported",
      "memory: queues end with the process that made them, so no second command could see them",
      { hint: "Use store:DIR, sqlite:FILE or redis://HOST; memory: is for the library." },
    );
  }
  const recoverStale = flags["recover-stale"] === true;
  const backend = await openBackend(url, {
    create: options.create ?? false,
    ...(recoverStale ? { recoverStale } : {}),
  });
  try {
    return await work(backend);
  } finally {
    await backend.close();
  }
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
export async function inputBytes(given: string | undefined): Promise<Uint8Array> {
  if (given !== undefined && given !== "-") return bytesOf(given);
  if (process.stdin.isTTY === true) {
    throw new AgentqError("usage", "no data were given and standard input is a terminal");
  }
  const chunks: Uint8Array[] = [];
  for await (const chunk of process.stdin) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks);
}

/** Prints documents, one JSON line each, also without `--json`: they are what is asked for. */
export function printLines(context: Context, documents: readonly unknown[]): void {
  context.progress.clear();
  writeOut(documents.map((document) => `${safeJson(document)}\n`).join(""));
}
