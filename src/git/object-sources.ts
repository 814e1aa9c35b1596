/**
 * Where a repository's objects lie, and the search through it.
 *
 *   the pack that answered last → own packs, the newest first → own loose file → the same in each alternate
 *     → not found: pack directories are listed again, once, since another git may have repacked
 *     → a pack vanished under our hands: list again and begin anew
 *     → a damaged copy: the next copy, and the damage is only reported when there is none
 */
import { readdirSync, statSync } from "node:fs";
import { AgentqError, isAgentqError } from "../errors.ts";
import { readAlternates } from "./alternates.ts";
import type { BoundedCache } from "./bounded-cache.ts";
import { openPack, type Pack } from "./pack.ts";
import { FileVanished, type SlicePool } from "./slices.ts";
import type { Oid } from "./types.ts";

/** With more packs than this the loose file is looked for first: one call instead of many. */
const FEW_PACKS = 8;

export interface ObjectSources {
  /** Own directory first, then the alternates. */
  directories(): string[];
  /**
   * Hands the object to the visitor for the kind of place it is in; null when it is nowhere.
   * `changedOnly` lists only pack directories again that seem changed, for questions whose usual answer
   * is no.
   */
  find<T>(oid: Oid, visit: Visitors<T>, changedOnly: boolean): T | null;
  /** {@link find} without listing again. */
  search<T>(oid: Oid, visit: Visitors<T>): T | null;
  /** Every pack and every object directory, begun anew when a pack vanishes meanwhile. */
  collect(pack: (pack: Pack) => void, directory: (path: string) => void): void;
  /** Lists pack directories again. True when there was something new. */
  rescan(changedOnly: boolean): boolean;
}

export interface Visitors<T> {
  packed(pack: Pack, offset: number): T;
  /** null when there is no such file. */
  loose(directory: string): T | null;
}

interface Source {
  readonly directory: string;
  packs: Pack[] | null;
  /** Modification time of the pack directory when it was listed. */
  listed: bigint;
}

export function openObjectSources(
  objectsDir: string,
  pool: SlicePool,
  bases: BoundedCache,
  borrowed?: string,
): ObjectSources {
  const own: Source = { directory: objectsDir, packs: null, listed: -1n };
  let alternates: Source[] | null = null;
  let recent: Pack | null = null;

  const changedAt = (source: Source): bigint =>
    statSync(`${source.directory}/pack`, { bigint: true, throwIfNoEntry: false })?.mtimeNs ?? -1n;

  /** Lists the packs, keeping those already open. True when there is a new one. */
  function list(source: Source): boolean {
    const directory = `${source.directory}/pack`;
    source.listed = changedAt(source);
    let names: string[] = [];
    try {
      names = readdirSync(directory);
    } catch (cause) {
      const { code } = cause as { code?: string };
      if (code !== "ENOENT") {
        throw new AgentqError("io-error", `Cannot list ${directory} (${code ?? cause}).`, {
          cause,
        });
      }
    }
    const known = new Map((source.packs ?? []).map((pack) => [pack.path, pack]));
    const all = new Set(names);
    const packs: { pack: Pack; time: number }[] = [];
    let added = false;
    for (const name of names) {
      if (!name.endsWith(".idx")) continue;
      const packName = name.replace(/idx$/, "pack");
      if (!all.has(packName)) continue;
      const path = `${directory}/${packName}`;
      const open = known.get(path);
      added ||= !open;
      // What is asked for is mostly what was written last.
      const time = statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
      packs.push({ pack: open ?? openPack(path, pool, bases), time });
      known.delete(path);
    }
    for (const gone of known.values()) {
      gone.close();
      if (gone === recent) recent = null;
    }
    source.packs = packs.sort((a, b) => b.time - a.time).map(({ pack }) => pack);
    return added;
  }

  function packsOf(source: Source): Pack[] {
    if (source.packs === null) list(source);
    return source.packs!;
  }

  function* sources(): Iterable<Source> {
    yield own;
    alternates ??= readAlternates(objectsDir, borrowed)
      .map((directory) => ({ directory, packs: null, listed: -1n }));
    yield* alternates;
  }

  function rescan(changedOnly: boolean): boolean {
    let added = false;
    for (const source of sources()) {
      if (changedOnly && source.packs !== null) {
        const time = changedAt(source);
        // A directory changed this lately may have been changed again within the same tick.
        const young = Math.abs(Date.now() - Number(time / 1_000_000n)) < 10_000;
        if (time === source.listed && !young) continue;
      }
      if (list(source)) added = true;
    }
    return added;
  }

  /** Runs `work`, anew after listing the packs again when one of them vanishes in it. */
  function retrying<T>(work: () => T): T {
    for (let attempt = 0;; attempt++) {
      try {
        return work();
      } catch (error) {
        if (!(error instanceof FileVanished)) throw error;
        if (attempt >= 8) {
          throw new AgentqError("io-error", `${error.path} keeps vanishing.`, {
            hint: "Another process repacks that repository without pause: try again later.",
            retryable: true,
          });
        }
        recent = null;
        rescan(false);
      }
    }
  }

  function search<T>(oid: Oid, visit: Visitors<T>): T | null {
    return retrying(() => {
      let damage: unknown = null;
      const guarded = (ask: () => T | null): T | null => {
        try {
          return ask();
        } catch (error) {
          if (!isAgentqError(error, "repository-corrupt")) throw error;
          damage ??= error;
          return null;
        }
      };
      const inPack = (pack: Pack) =>
        guarded(() => {
          const offset = pack.index().find(oid);
          return offset < 0 ? null : visit.packed(pack, offset);
        });
      let found = recent && inPack(recent);
      if (found !== null) return found;
      for (const source of sources()) {
        const looseFirst = packsOf(source).length > FEW_PACKS;
        if (looseFirst) found = guarded(() => visit.loose(source.directory));
        for (const pack of found === null ? packsOf(source) : []) {
          if (pack === recent) continue;
          found = inPack(pack);
          if (found === null) continue;
          recent = pack;
          return found;
        }
        if (!looseFirst) found = guarded(() => visit.loose(source.directory));
        if (found !== null) return found;
      }
      if (damage !== null) throw damage;
      return null;
    });
  }

  return {
    directories: () => [...sources()].map((source) => source.directory),
    search,
    find(oid, visit, changedOnly) {
      const found = search(oid, visit);
      if (found !== null) return found;
      return rescan(changedOnly) ? search(oid, visit) : null;
    },
    collect(pack, directory) {
      retrying(() => {
        for (const source of sources()) {
          for (const each of packsOf(source)) pack(each);
          directory(source.directory);
        }
      });
    },
    rescan,
  };
}
