/** An origin on this machine's file system, read and written in-process. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { AgentqError, isAgentqError } from "../../errors.ts";
import { throwIfAborted } from "../../platform/clock.ts";
import { enterRepository } from "../discovery.ts";
import { refInputs, repositoryInputs } from "../inputs.ts";
import { leavesForeignFiles } from "../ownership.ts";
import { openRepository, type Repository } from "../repository.ts";
import type { ObjectReader, Oid, Origin } from "../types.ts";
import { copyObjects } from "./fetch.ts";
import { hiddenRefs } from "./hidden-refs.ts";
import { hooksDirectory, ignoredHooks } from "./hook-files.ts";

/**
 * Opens the repository at `path`.
 * @param url how the origin is called in messages
 * @param localHaves commits that the clone being fetched into holds whole
 * @param note told once what git would remark on while pushing
 * @throws `origin-not-found`, `repository-unsupported`
 */
export function openFileOrigin(
  path: string,
  url: string,
  localHaves: () => readonly Oid[] = () => [],
  note?: (text: string) => void,
): Origin {
  const { repository, looked } = openAt(path, url);
  const { objects } = repository;
  let noted = false;

  /** A directory that is gone (unmounted, moved) may come back, as a server does. */
  function gone(error: unknown): unknown {
    if (existsSync(repository.gitDir)) return error;
    return new AgentqError("origin-unreachable", `The repository ${url} isn't there any more.`, {
      cause: error,
      hint: "Check whether the directory is mounted here, or was moved.",
      details: { path: repository.gitDir },
    });
  }

  /** Synchronous work as a promise, its errors as rejections. */
  function attempt<T>(work: () => T): Promise<T> {
    return new Promise<T>((settle) => settle(work())).catch((error) => {
      throw gone(error);
    });
  }

  return {
    kind: "file",
    url,
    refs(prefixes, signal) {
      return attempt(() => {
        throwIfAborted(signal);
        const hidden = hiddenRefs(repository.config, "uploadpack");
        const refs = new Map<string, Oid>();
        for (const { name, oid } of repository.refs.list(...prefixes)) {
          if (hidden(name) === null) refs.set(name, oid);
        }
        return { refs, head: repository.head().branch };
      });
    },
    inputs(prefixes) {
      const found = repositoryInputs(repository, repository.gitDir);
      const refs = refInputs(repository, prefixes);
      if (looked.slice(0, -1).some((at) => existsSync(at))) return null;
      if (found === null || refs === null) return null;
      return [
        ...looked.map((at) => ["place", at] as const),
        // The place of a `.git` file stays the same when another path is written into it.
        ["text", looked.at(-1)!],
        ...found,
        ...refs,
      ];
    },
    remark() {
      const ignored = wordsOnIgnored(repository, url);
      if (ignored !== null) return ignored;
      if (!leavesForeignFiles(repository)) return null;
      return {
        message:
          `what is pushed to ${url} from here doesn't belong to its owner, who may be unable to change it`,
        hint:
          "Push as its owner, or let its files be shared: git config core.sharedRepository group there.",
      };
    },
    async tidy(refs) {
      const { removeDeadLocks } = await import("./left-locks.ts");
      removeDeadLocks(repository, refs);
    },
    async leftLocks(refs, signal) {
      const { leftLocks } = await import("./left-locks.ts");
      return await leftLocks(repository.commonDir, refs, signal ? { signal } : {});
    },
    readCommits(oids, signal) {
      return attempt(() => {
        throwIfAborted(signal);
        const found = new Map<Oid, Uint8Array>();
        for (const oid of oids) {
          try {
            const object = objects.read(oid);
            if (object.type === "commit") found.set(oid, object.data);
          } catch (error) {
            if (!isAgentqError(error, "object-missing")) throw error;
          }
        }
        return found;
      });
    },
    objects: (): ObjectReader => objects,
    fetch: (wants, into, options = {}) =>
      attempt(() => {
        const haves = [...(options.haves ?? []), ...localHaves()];
        copyObjects(objects, wants, into, { ...options, haves });
      }),
    async push(updates, from, options = {}) {
      const { pushToFile } = await import("./push.ts");
      if (!noted) {
        noted = true;
        const ignored = note && wordsOnIgnored(repository, url);
        if (ignored) note(ignored.message);
      }
      return await pushToFile(repository, updates, from, options).catch((error) => {
        throw gone(error);
      });
    },
    close: () => repository.close(),
  };
}

/** Hooks that don't refuse what they are there to refuse; null: there are none, or `advice.ignoredHook` is off. */
function wordsOnIgnored(
  { gitDir, commonDir, config }: Repository,
  url: string,
): { message: string; hint: string } | null {
  if (config.getBoolean("advice.ignoredHook") === false) return null;
  const hooksDir = hooksDirectory(gitDir, commonDir, config.getPath("core.hooksPath"));
  const names = ignoredHooks({ gitDir, hooksDir });
  if (names.length === 0) return null;
  return {
    message: `hooks of ${url} are ignored, since they are not executable: ${names.join(", ")}`,
    hint: `chmod +x in ${hooksDir}, or remove what isn't meant to be run.`,
  };
}

/** The repository that `path` names, and the places that were looked at, the last of which is it. */
function openAt(path: string, url: string): { repository: Repository; looked: readonly string[] } {
  const missing = (why: string, cause?: AgentqError) =>
    new AgentqError("origin-not-found", `There is no repository at ${url}${why}`, {
      cause,
      hint: "Check the remote's url, and whether the directory is mounted here.",
      details: { ...cause?.details, path: resolve(path) },
    });
  try {
    const { found, looked } = enterRepository(path);
    if (found === null) throw missing(".");
    return { repository: openRepository(path, { found }), looked };
  } catch (error) {
    if (!isAgentqError(error, "not-a-repository")) throw error;
    throw missing(`: ${error.message}`, error);
  }
}
