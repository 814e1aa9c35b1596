/** From a backend's address to the backend; only the module that is needed is loaded. */
import { type Stats, statSync } from "node:fs";
import { AgentqError } from "../errors.ts";
import type { QueueBackend } from "./contract.ts";

export interface OpenOptions {
  /** Make the store or database where there is none. Otherwise `backend-missing`. */
  readonly create?: boolean;
  /** Prove a stale store lock's owner gone and go on (`store:` only). */
  readonly recoverStale?: boolean;
  /** Ends waiting for a store's lock, with its reason (`store:` only). What has begun comes to its end. */
  readonly signal?: AbortSignal;
  /** The same while the store is opened; `signal` unless given. */
  readonly openingSignal?: AbortSignal;
  /** How long a call may wait for another's transaction, doing nothing else (`sqlite:` only); 5000 unless given. */
  readonly busyTimeoutMs?: number;
  /** Where Redis users and passwords come from; the process's environment unless given. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/**
 * Opens `memory:`, `store:DIR`, `sqlite:FILE`, `v1:DIR`, `redis://…` or `rediss://…`.
 * Throws `usage` for anything else, and what the backend throws.
 */
export async function openBackend(url: string, options: OpenOptions = {}): Promise<QueueBackend> {
  const colon = url.indexOf(":");
  const scheme = url.slice(0, Math.max(0, colon));
  const rest = url.slice(colon + 1);
  const create = options.create ?? false;
  switch (scheme) {
    case "memory":
      return (await import("./backends/memory.ts")).memoryBackend();
    case "sqlite": {
      requirePath(rest, scheme);
      requireDatabase(rest);
      const { sqliteBackend } = await import("./backends/sqlite/backend.ts");
      const { busyTimeoutMs } = options;
      return sqliteBackend(rest, {
        create,
        ...(busyTimeoutMs === undefined ? {} : { busyTimeoutMs }),
      });
    }
    case "store": {
      requirePath(rest, scheme);
      const { storeBackend } = await import("./backends/store/backend.ts");
      const { recoverStale, signal, openingSignal } = options;
      return await storeBackend(rest, {
        create,
        ...(recoverStale === undefined ? {} : { recoverStale }),
        ...(signal === undefined ? {} : { signal }),
        ...(openingSignal === undefined ? {} : { openingSignal }),
      });
    }
    case "v1": {
      requirePath(rest, scheme);
      return (await import("./backends/v1.ts")).v1Backend(rest, { create });
    }
    case "redis":
    case "rediss": {
      const [{ parseRedisUrl }, { redisBackend }] = await Promise.all([
        import("./backends/redis/address.ts"),
        import("./backends/redis/backend.ts"),
      ]);
      return await redisBackend(parseRedisUrl(url, options.env ?? process.env));
    }
    default:
      throw new AgentqError("usage", "the backend is none that agentq knows", {
        hint: "Use store:DIR, sqlite:FILE, v1:DIR, redis://HOST[:PORT] or rediss://HOST[:PORT].",
      });
  }
}

function requirePath(path: string, scheme: string): void {
  if (path === "" || path.includes("\0")) {
    throw new AgentqError("usage", `${scheme}: needs a path after the colon`);
  }
}

/** SQLite's own names for databases that no other process sees, and what isn't a file at all. */
function requireDatabase(path: string): void {
  if (path === ":memory:" || path.startsWith("file:")) {
    throw new AgentqError("usage", `sqlite: needs the path of a file, not ${path}`, {
      hint: "Name it with its directory, sqlite:./NAME, if a file is really called that.",
    });
  }
  let stat: Stats | undefined;
  try {
    stat = statSync(path, { throwIfNoEntry: false });
  } catch {
    // The backend says what is wrong on the way there.
  }
  if (stat === undefined || stat.isFile() || stat.isDirectory()) return;
  throw new AgentqError("io-error", `${path} is neither a file nor a directory`, {
    hint: "Name a file: sqlite:FILE.",
    details: { path },
  });
}
