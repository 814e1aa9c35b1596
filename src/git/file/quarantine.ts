/**
 * Where new objects wait while hooks look at them, as git's receive-pack does it: an object directory
 * of its own, `objects/tmp_objdir-incoming-…`, with the real one as its alternate. Accepted, its packs
 * are moved over; refused or killed, it is thrown away (`git gc` prunes what a kill leaves).
 */
import { mkdirSync, readdirSync, renameSync, rmSync } from "node:fs";
import { AgentqError } from "../../errors.ts";
import { randomBytes } from "../../platform/hash.ts";
import { fsyncDirectory } from "../loose.ts";
import { makeBelow } from "../../platform/make-below.ts";

export interface Quarantine {
  readonly packDirectory: string;
  /** What hooks need to see the objects. */
  readonly env: Readonly<Record<string, string>>;
  /**
   * Moves the packs into the real object directory, durably; gives their paths there.
   * @throws `io-error` with errno ENOENT when somebody (`git gc --prune=now`) has cleared it away
   */
  migrate(): string[];
  discard(): void;
}

/** @param shown the object directory's own path, for hooks; `objectsDirectory` may lead to it in another way */
export function openQuarantine(
  objectsDirectory: string,
  shown = objectsDirectory,
): Quarantine {
  const name = `tmp_objdir-incoming-${randomBytes(6).toString("hex")}`;
  const directory = `${objectsDirectory}/${name}`;
  const packDirectory = `${directory}/pack`;
  try {
    for (const path of [directory, packDirectory]) mkdirSync(path, { mode: 0o700 });
  } catch (cause) {
    throw ioError(objectsDirectory, cause);
  }
  const discard = () => rmSync(directory, { recursive: true, force: true });
  return {
    packDirectory,
    env: {
      GIT_QUARANTINE_PATH: `${shown}/${name}`,
      GIT_OBJECT_DIRECTORY: `${shown}/${name}`,
      GIT_ALTERNATE_OBJECT_DIRECTORIES: quoted(shown),
    },
    migrate() {
      const target = `${objectsDirectory}/pack`;
      let names: string[];
      try {
        makeBelow(objectsDirectory, target);
        // An index that is visible must find its pack, and a pack what keeps it.
        const order = [".keep", ".pack", ".idx"];
        const rank = (name: string) => order.findIndex((suffix) => name.endsWith(suffix));
        names = readdirSync(packDirectory).filter((name) => name.startsWith("pack-"))
          .sort((a, b) => rank(a) - rank(b));
        if (!names.some((name) => name.endsWith(".idx"))) {
          throw Object.assign(new Error("emptied"), { code: "ENOENT" });
        }
        for (const name of names) renameSync(`${packDirectory}/${name}`, `${target}/${name}`);
        fsyncDirectory(target);
      } catch (cause) {
        throw ioError(objectsDirectory, cause);
      }
      discard();
      return names.filter((name) => name.endsWith(".pack")).map((name) => `${target}/${name}`);
    },
    discard,
  };
}

/** A path in a list separated by colons, quoted as git reads it. */
function quoted(path: string): string {
  return /[:"\n\\]/.test(path)
    ? `"${path.replace(/[\\"]/g, "\\$&").replaceAll("\n", "\\n")}"`
    : path;
}

function ioError(path: string, cause: unknown): AgentqError {
  const code = (cause as { code?: string }).code;
  return new AgentqError("io-error", `Cannot write to ${path} (${code ?? cause}).`, {
    cause,
    details: { path, errno: code },
  });
}
