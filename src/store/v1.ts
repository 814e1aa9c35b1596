/**
 * v1 queues: one directory, `<id>.json` → `<id>.processing` → `<id>.delivered`, dead letters in a
 * failed directory. `@openclaw/fs-safe` is v1; this only adapts it.
 *
 * v1 claims, quarantines and retires by hardlink. Where the system refuses those, the answer is
 * `helper-unavailable` with its errno, and every file stays as it was: never a rename, a copy or a v2
 * store instead. Claims are at least once: v1 has no way back to pending, so a message that was
 * claimed and not acknowledged is what the next claim of its id returns.
 */
import { existsSync, lstatSync, readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { AgentqError, isAgentqError } from "../errors.ts";
import { absolutePath, withoutLinks } from "../platform/directory.ts";
import { errnoOf, ioError, syncDirectory } from "../platform/durable.ts";
import { assertUsableUmask } from "../platform/umask.ts";
import type { Json } from "./types.ts";
import { toTyped, typed, unsure, versionOf, wasPublished, wasTaken } from "./v1-errors.ts";
import { v1Contents } from "./v1-contents.ts";
import { requireV1Place } from "./v1-probe.ts";
import { refuseStore } from "./v2-marks.ts";

export type NativeMode = "off" | "auto" | "require";

export interface V1Options {
  /** Where dead letters go; shared by as many queues as name it. Default `<directory>/failed`. */
  failedDirectory?: string;
  /**
   * Whether fs-safe uses its native helper. Default FS_SAFE_NATIVE_MODE, else `auto` (`off` under
   * Deno, where the helper can't be loaded). fs-safe has one such setting for the whole process.
   */
  nativeMode?: NativeMode;
  /** False: the directories are made, and made private, only before the first change. Default true. */
  prepare?: boolean;
}

export interface V1Claim {
  readonly id: string;
  /** Undefined when `unreadable`. */
  readonly payload: Json | undefined;
  /** Why the payload can't be read; the message is claimed all the same, and can be failed. */
  readonly unreadable: AgentqError | null;
}

export interface V1Counts {
  readonly pending: number;
  readonly processing: number;
}

export interface V1Queue {
  readonly directory: string;
  readonly failedDirectory: string;
  /** Publishes `<id>.json`, replacing a still-pending one. */
  enqueue(id: string, payload: Json): Promise<void>;
  /** The oldest pending messages, or the one named (also when it is claimed already). */
  claim(options?: { id?: string; count?: number }): Promise<V1Claim[]>;
  /** Removes a claim. `stale-generation` when nothing of that id is claimed. */
  ack(id: string): Promise<void>;
  /** Claims what isn't yet, and moves it to the failed directory, create-only (`already-exists`). */
  fail(id: string): Promise<void>;
  /** From one listing of the directory. */
  counts(): V1Counts;
  /** IDs from one listing, oldest pending first: one that is claimed may be pending too, as a newer message. */
  unacked(): { readonly pending: string[]; readonly processing: string[] };
  /** IDs that can be claimed, the oldest first. */
  pending(): string[];
  processing(): string[];
  failed(): string[];
}

/** fs-safe's own prefix for temp files made here. */
const TEMP_PREFIX = "agentq";

/**
 * Opens (and, when missing, makes) a v1 queue; looking changes nothing. What lies above its directories may be links, which fs-safe
 * refuses: they are followed once, here. Errors: `v2-directory`, `helper-unavailable`, `mode-unsupported`.
 */
export async function openV1Queue(directory: string, options: V1Options = {}): Promise<V1Queue> {
  const queueDir = belowLinks(absolutePath(directory));
  const failedDir = belowLinks(absolutePath(options.failedDirectory ?? join(queueDir, "failed")));
  refuseStore(queueDir);
  refuseStore(failedDir);
  const fsSafe = await import("@openclaw/fs-safe/store");
  const { configureFsSafeNative } = await import("@openclaw/fs-safe/config");
  configureFsSafeNative({ mode: options.nativeMode ?? defaultNativeMode() });
  let isPrepared = false;
  const prepare = async () => {
    if (isPrepared) return;
    if (!existsSync(queueDir) || !existsSync(failedDir)) {
      assertUsableUmask(queueDir);
      requireV1Place(queueDir);
    }
    await typed(
      "prepare",
      queueDir,
      () => fsSafe.ensureJsonDurableQueueDirs({ queueDir, failedDir }),
    );
    isPrepared = true;
  };
  if (options.prepare ?? true) await prepare();

  // v1's own rule for IDs, which is wider than the v2 store's.
  const pathsOf = (id: string) => {
    try {
      return fsSafe.resolveJsonDurableQueueEntryPaths(queueDir, id);
    } catch (cause) {
      throw new AgentqError("name-invalid", `not an ID of a v1 queue: ${JSON.stringify(id)}`, {
        cause,
      });
    }
  };
  const isId = (id: string) => {
    try {
      return pathsOf(id) !== null;
    } catch {
      return false;
    }
  };
  const listed = () => {
    const { messages: files } = v1Contents(queueDir);
    const withSuffix = (suffix: string) =>
      files.filter((name) => name.endsWith(suffix))
        .map((name) => name.slice(0, -suffix.length))
        .filter(isId);
    return { json: withSuffix(".json"), processing: withSuffix(".processing") };
  };
  const oldestFirst = (ids: string[]) =>
    ids.map((id) => ({ id, at: publishedAt(join(queueDir, `${id}.json`)) }))
      .sort((a, b) => a.at === b.at ? (a.id < b.id ? -1 : 1) : a.at < b.at ? -1 : 1)
      .map(({ id }) => id);
  /** One message has both names for a moment while it is claimed; else a newer one waits for the older's end. */
  const isAnother = (id: string) => {
    const [json, processing] = ["json", "processing"].map((suffix) =>
      lstatSync(join(queueDir, `${id}.${suffix}`), { bigint: true, throwIfNoEntry: false })
    );
    return json !== undefined && (json.ino !== processing?.ino || json.dev !== processing.dev);
  };
  const unacked = () => {
    const { json, processing } = listed();
    const claimed = new Set(processing);
    return { processing, pending: json.filter((id) => !claimed.has(id) || isAnother(id)), claimed };
  };
  const pending = () => {
    const { pending, claimed } = unacked();
    return oldestFirst(pending.filter((id) => !claimed.has(id)));
  };
  const load = async (id: string): Promise<V1Claim | null> => {
    const paths = pathsOf(id);
    assertUsableUmask(queueDir);
    await prepare();
    try {
      const payload = await typed(
        "claim",
        paths.jsonPath,
        () => fsSafe.loadJsonDurableQueueEntry<Json>({ paths, tempPrefix: TEMP_PREFIX }),
      );
      // `null` is also how a payload that is null comes back; then it is there, claimed.
      if (payload === null && !listed().processing.includes(id)) return null;
      return { id, payload, unreadable: null };
    } catch (error) {
      const readable = !(error instanceof AgentqError) || error.code !== "payload-unreadable";
      if (readable) throw error;
      return { id, payload: undefined, unreadable: error };
    }
  };

  return {
    directory: queueDir,
    failedDirectory: failedDir,
    async enqueue(id, payload) {
      const { jsonPath } = pathsOf(id);
      assertUsableUmask(queueDir);
      await prepare();
      const before = versionOf(jsonPath);
      try {
        const tempPrefix = TEMP_PREFIX;
        await fsSafe.writeJsonDurableQueueEntry({ filePath: jsonPath, entry: payload, tempPrefix });
      } catch (error) {
        // It was published, and taken before fs-safe had looked at it again. It had not synced it yet.
        if (wasPublished(jsonPath, error)) syncDirectory(queueDir);
        else throw unsure(jsonPath, before, error) ?? toTyped("write", jsonPath, error);
      }
    },
    async claim({ id, count = 1 } = {}) {
      const claims: V1Claim[] = [];
      let fault: unknown;
      for (const next of id === undefined ? pending() : [id]) {
        if (claims.length >= count) break;
        try {
          const claim = await load(next);
          if (claim !== null) claims.push(claim);
        } catch (error) {
          fault ??= error;
          // One that fs-safe doesn't take for a message of its own holds up nothing. What else went wrong
          // does, but what was claimed before it has no way back and must be handed out.
          if (!isAgentqError(error, "identity-changed")) break;
        }
      }
      if (claims.length === 0 && fault !== undefined) throw fault;
      return claims;
    },
    async ack(id) {
      const paths = pathsOf(id);
      if (!listed().processing.includes(id)) throw notClaimed(queueDir, id);
      assertUsableUmask(queueDir);
      await prepare();
      try {
        await fsSafe.ackJsonDurableQueueEntry(paths);
      } catch (error) {
        // Another consumer of the directory was first, since it was looked at.
        if (wasTaken(error) && !listed().processing.includes(id)) throw notClaimed(queueDir, id);
        throw toTyped("acknowledge", paths.processingPath ?? paths.jsonPath, error);
      }
    },
    async fail(id) {
      const paths = pathsOf(id);
      assertUsableUmask(queueDir);
      await prepare();
      await typed(
        "fail",
        paths.jsonPath,
        () => fsSafe.moveJsonDurableQueueEntryToFailed({ queueDir, failedDir, id }),
      );
    },
    counts() {
      const { pending, processing } = unacked();
      return { pending: pending.length, processing: processing.length };
    },
    unacked() {
      const { pending, processing } = unacked();
      return { pending: oldestFirst(pending), processing };
    },
    pending,
    processing: () => listed().processing,
    failed: () =>
      names(failedDir).filter((name) => name.endsWith(".json"))
        .map((name) => name.slice(0, -".json".length)),
  };
}

/** The path with the links above its last name followed. */
function belowLinks(path: string): string {
  const parent = dirname(path);
  return parent === path ? path : join(withoutLinks(parent), basename(path));
}

function defaultNativeMode(): NativeMode {
  const { FS_SAFE_NATIVE_MODE: mode } = process.env;
  if (mode === "off" || mode === "auto" || mode === "require") return mode;
  return "Deno" in globalThis ? "off" : "auto";
}

function names(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return [];
    throw ioError("list", directory, error);
  }
}

/** In nanoseconds; only to order what is pending. */
function publishedAt(path: string): bigint {
  return lstatSync(path, { bigint: true, throwIfNoEntry: false })?.mtimeNs ?? 0n;
}

function notClaimed(directory: string, id: string): AgentqError {
  return new AgentqError("stale-generation", `${join(directory, id)}: it isn't claimed`, {
    details: { id },
  });
}
