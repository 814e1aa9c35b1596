/**
 * A repository of this file system as one and the same directory for the time it is used.
 *
 * A path is not a repository: while a hook runs, or between two calls, an operator may move the directory away,
 * delete it, or put a copy from yesterday in its place. So the directory is held open and, where the system has
 * `/proc/self/fd`, everything in it is reached through that descriptor: what was begun in it is ended in it, and
 * what is left is taken away, wherever it lies by then. `check` tells whether the path still leads to it. Without
 * `/proc` the path itself is used, between checks.
 *
 * A descriptor also keeps the directory's inode number from being given to the next one.
 */
import { closeSync, constants, fstatSync, openSync, statSync } from "node:fs";
import { AgentqError } from "../../errors.ts";
import { errnoOf, ioError } from "../../platform/durable.ts";
import type { Repository } from "../repository.ts";

/** Which directories a path led to. */
export interface Identity {
  /** One text for each place, device and inode in it. Null: one isn't there. */
  readonly places: readonly string[] | null;
  /** When they came to be, as far as the file system tells: inode numbers are used again. */
  readonly born: string;
}

type Owned = Pick<Repository, "gitDir" | "commonDir" | "objects">;

/** What `place`, by which a url leads to the repository, and the repository's own paths lead to now. Never throws. */
export function identityOf(repository: Owned, place: string): Identity {
  const { gitDir, commonDir, objects } = repository;
  const paths = [place, gitDir, commonDir, `${commonDir}/refs`, ...objects.directories()];
  const places: string[] = [];
  const born: string[] = [];
  try {
    for (const path of new Set(paths)) {
      const stat = statSync(path, { bigint: true });
      // The same `.git` file may name another directory now.
      places.push(
        `${stat.dev}:${stat.ino}${stat.isFile() ? `:${stat.size}:${stat.mtimeNs}` : ""}`,
      );
      born.push(String(stat.birthtimeNs));
    }
  } catch {
    return { places: null, born: "" };
  }
  return { places, born: born.join() };
}

export const isSame = (one: Identity, other: Identity): boolean =>
  one.places !== null && one.places.join() === other.places?.join();

/** The error of an origin that was moved away, deleted, or replaced. */
export function displaced(url: string, path: string, cause?: unknown): AgentqError {
  const there = statSync(path, { throwIfNoEntry: false }) !== undefined;
  const [what, hint] = there
    ? [
      "was replaced by another directory while it was used",
      "Try again: what is there now is looked at anew.",
    ]
    : ["isn't there any more", "Check whether the directory is mounted here, or was moved."];
  return new AgentqError("origin-unreachable", `The repository ${url} ${what}.`, {
    cause,
    hint,
    details: { path },
  });
}

export interface HeldRepository {
  /** Paths that lead into the held repository whatever is done to its own; `objects` among them. */
  readonly gitDir: string;
  readonly commonDir: string;
  readonly objectsDirectory: string;
  readonly packDirectory: string;
  readonly refsDirectory: string;
  /** Whether its own paths still lead to it, to its objects and refs, and to what it borrows from. */
  isThere(): boolean;
  /** @throws `origin-unreachable` unless it {@link isThere} */
  check(): void;
  /** A text, or an error, with the repository's own paths in place of the held ones. */
  named<T>(textOrError: T): T;
  /** The held paths lead nowhere afterwards. */
  close(): void;
}

/** A descriptor that gives a place, not what is in it: search permission on what is above is enough. */
const O_PATH = process.platform === "linux" ? 0o10000000 : constants.O_RDONLY;

/** What a url stands for. */
export interface Place {
  /** How it is called in messages. */
  readonly url: string;
  /** The path by which it leads to the repository: a link there may be pointed elsewhere. */
  readonly path: string;
  /** What it led to when the repository was opened. */
  readonly identity: Identity;
}

/**
 * Holds the repository. `close` must be called.
 * @throws `origin-unreachable` where the place no longer leads to it
 */
export function holdRepository(repository: Owned, place: Place): HeldRepository {
  const { url, path, identity } = place;
  const { gitDir, commonDir, objects } = repository;
  const opened: { fd: number; path: string; held: string }[] = [];
  const close = () => {
    for (const { fd } of opened.splice(0)) closeSync(fd);
  };
  /** `real`: where it is by its own name; `path`: how it is reached. */
  const hold = (real: string, path = real): string => {
    const fd = openSync(path, O_PATH | (constants.O_DIRECTORY ?? 0));
    const held = throughDescriptor(fd) ?? real;
    opened.push({ fd, path: real, held });
    return held;
  };
  const check = () => {
    if (!isThere()) throw displaced(url, gitDir);
  };
  const isThere = () => isSame(identity, identityOf(repository, path));
  try {
    const own = hold(gitDir);
    const common = gitDir === commonDir ? own : hold(commonDir);
    const { directory } = objects;
    const inside = directory.startsWith(`${commonDir}/`);
    const objectsDirectory = hold(
      directory,
      inside ? common + directory.slice(commonDir.length) : directory,
    );
    const refsDirectory = hold(`${commonDir}/refs`, `${common}/refs`);
    check();
    const ids = opened.map(({ fd }) => {
      const { dev, ino } = fstatSync(fd, { bigint: true });
      return `${dev}:${ino}`;
    });
    if (!ids.every((id) => identity.places?.includes(id))) throw displaced(url, gitDir);
    return {
      gitDir: own,
      commonDir: common,
      objectsDirectory,
      packDirectory: `${objectsDirectory}/pack`,
      refsDirectory,
      isThere,
      check,
      named: (textOrError) => withOwnPaths(textOrError, opened),
      close,
    };
  } catch (error) {
    close();
    if (!["ENOENT", "ENOTDIR", "ELOOP"].includes(errnoOf(error) ?? "")) {
      throw ioError("open", gitDir, error);
    }
    throw displaced(url, gitDir, error);
  }
}

/** The path of a descriptor of ours; null where there is none. */
function throughDescriptor(fd: number): string | null {
  if (process.platform !== "linux") return null;
  const path = `/proc/self/fd/${fd}`;
  try {
    const [here, there] = [fstatSync(fd, { bigint: true }), statSync(path, { bigint: true })];
    return here.dev === there.dev && here.ino === there.ino ? path : null;
  } catch {
    // No /proc, or one that shows nothing of this process.
    return null;
  }
}

function withOwnPaths<T>(
  textOrError: T,
  opened: readonly { path: string; held: string }[],
): T {
  const own = (text: string) =>
    opened.filter(({ path, held }) => held !== path).reduce(
      (before, { path, held }) =>
        before.replaceAll(new RegExp(`${held}(?![0-9])`, "g"), () => path),
      text,
    );
  if (typeof textOrError === "string") return own(textOrError) as T;
  if (!(textOrError instanceof AgentqError)) return textOrError;
  const { code, message, hint, retryable, cause, details } = textOrError;
  if (![message, hint, JSON.stringify(details ?? {})].some((text) => own(text) !== text)) {
    return textOrError;
  }
  return new AgentqError(code, own(message), {
    cause,
    hint: own(hint),
    retryable,
    ...(details && { details: JSON.parse(own(JSON.stringify(details))) }),
  }) as T;
}
