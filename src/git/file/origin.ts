/** An origin on this machine's file system, read and written in-process. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { AgentqError, isAgentqError } from "../../errors.ts";
import { throwIfAborted } from "../../platform/clock.ts";
import { enterRepository } from "../discovery.ts";
import { refInputs, repositoryInputs } from "../inputs.ts";
import { leavesForeignFiles } from "../ownership.ts";
import type { ObjectStore } from "../odb.ts";
import { listRefs } from "../refs.ts";
import { openRepository, readHead, type Repository } from "../repository.ts";
import type { ObjectReader, Oid, Origin } from "../types.ts";
import { copyObjects } from "./fetch.ts";
import { hiddenRefs } from "./hidden-refs.ts";
import { displaced, holdRepository, identityOf, isSame, type Place } from "./hold.ts";
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
  let opened = openAt(path, url);
  let noted = false;

  /** The repository that the path leads to now: another one than before may have been put there. */
  function current(): Opened {
    const { repository, place } = opened;
    const now = identityOf(repository, place.path);
    if (isSame(now, place.identity) && now.born === place.identity.born) return opened;
    let next: Opened;
    try {
      next = openAt(path, url);
    } catch (error) {
      if (!isAgentqError(error, "origin-not-found")) throw error;
      throw displaced(url, repository.gitDir, error);
    }
    repository.close();
    return opened = next;
  }

  /** A directory that is gone (unmounted, moved) may come back, as a server does; so may what was replaced. */
  function gone(error: unknown): unknown {
    if (isAgentqError(error, "origin-unreachable")) return error;
    const { repository, place } = opened;
    return isSame(identityOf(repository, place.path), place.identity)
      ? error
      : displaced(url, repository.gitDir, error);
  }

  /** Asks the object store; what it doesn't have says something only where it is still the origin's. */
  function ask<T>(question: (store: ObjectStore) => T): T {
    try {
      return question(opened.repository.objects);
    } catch (error) {
      throw isAgentqError(error, "object-missing") ? gone(error) : error;
    }
  }

  const objects: ObjectReader & Pick<ObjectStore, "commitInfo"> = {
    read: (oid) => ask((store) => store.read(oid)),
    stat: (oid) => ask((store) => store.stat(oid)),
    commitInfo: (oid) => ask((store) => store.commitInfo(oid)),
    has: (oid) => opened.repository.objects.has(oid),
  };

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
        const { repository, place } = current();
        const hidden = hiddenRefs(repository.config, "uploadpack");
        const refs = new Map<string, Oid>();
        // A directory that is away for a moment would seem to have no refs.
        const held = holdRepository(repository, place);
        try {
          for (const { name, oid } of listRefs(held, prefixes)) {
            if (hidden(name) === null) refs.set(name, oid);
          }
          const head = readHead(held.gitDir, held.commonDir).branch;
          held.check();
          return { refs, head };
        } catch (error) {
          throw held.named(error);
        } finally {
          held.close();
        }
      });
    },
    inputs(prefixes) {
      const { repository, looked } = opened;
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
      const { repository } = opened;
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
      removeDeadLocks(opened.repository, refs);
    },
    async leftLocks(refs, signal) {
      const { leftLocks } = await import("./left-locks.ts");
      return await leftLocks(opened.repository.commonDir, refs, signal ? { signal } : {});
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
        current();
        const haves = [...(options.haves ?? []), ...localHaves()];
        copyObjects(objects, wants, into, { ...options, haves });
      }),
    async push(updates, from, options = {}) {
      const { pushToFile } = await import("./push.ts");
      const { repository, place } = current();
      if (!noted) {
        noted = true;
        const ignored = note && wordsOnIgnored(repository, url);
        if (ignored) note(ignored.message);
      }
      return await pushToFile(repository, place, updates, from, options).catch((error) => {
        throw gone(error);
      });
    },
    close: () => opened.repository.close(),
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

interface Opened {
  readonly repository: Repository;
  readonly place: Place;
  /** The places that were looked at, the last of which is it. */
  readonly looked: readonly string[];
}

/** The repository that `path` names. */
function openAt(path: string, url: string): Opened {
  const missing = (why: string, cause?: AgentqError) =>
    new AgentqError("origin-not-found", `There is no repository at ${url}${why}`, {
      cause,
      hint: "Check the remote's url, and whether the directory is mounted here.",
      details: { ...cause?.details, path: resolve(path) },
    });
  try {
    const { found, looked } = enterRepository(path);
    if (found === null) throw missing(".");
    const repository = openRepository(path, { found });
    const last = looked.at(-1)!;
    return {
      repository,
      place: { url, path: last, identity: identityOf(repository, last) },
      looked,
    };
  } catch (error) {
    if (!isAgentqError(error, "not-a-repository")) throw error;
    throw missing(`: ${error.message}`, error);
  }
}
