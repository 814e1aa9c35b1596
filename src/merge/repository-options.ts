/** How merges are made in a clone, by its configuration and attributes. */
import { Buffer } from "node:buffer";
import { closeSync, openSync, readdirSync, readSync } from "node:fs";
import { join } from "node:path";
import { AgentqError, isAgentqError } from "../errors.ts";
import { parseBoolean } from "../git/config-file.ts";
import type { GitConfig } from "../git/config.ts";
import { conversionFor, toRepository, toWorkTree } from "../git/eol.ts";
import { pathFromBytes } from "../git/quote.ts";
import { openRepository, type Repository } from "../git/repository.ts";
import type { ObjectReader, Oid } from "../git/types.ts";
import {
  repositoryAttributes,
  workTreeFiles,
  workTreeSettings,
} from "../git/work-tree-settings.ts";
import { driverRunner } from "./driver.ts";
import type { ConflictStyle } from "./text/merge3.ts";
import type { MergeDriver, MergeOptions } from "./types.ts";

/**
 * The options under which git itself would merge in this clone: `merge.*` settings, attributes of the
 * work tree (a bare repository has its info/attributes only), drivers, submodules that are there.
 * @throws `config-invalid`
 */
export function repositoryMergeOptions(repository: Repository): MergeOptions {
  const { config, workTree, gitDir } = repository;
  const lookup = repositoryAttributes(
    repository,
    workTree === null ? () => null : workTreeFiles(workTree),
  );
  refuseWithoutValue(config, /^merge\.(default|.+\.(name|driver|recursive))$/s);
  const drivers = new Map<string, MergeDriver>();
  for (const name of config.subsections("merge")) {
    const command = config.get(`merge.${name}.driver`);
    const recursive = config.get(`merge.${name}.recursive`);
    if (command === null && recursive === null && config.get(`merge.${name}.name`) === null) {
      continue;
    }
    drivers.set(name, {
      ...(command === null ? {} : { command }),
      ...(recursive === null ? {} : { recursive }),
    });
  }
  const settings = workTreeSettings(config);
  const renormalize = (path: string, data: Uint8Array): Uint8Array => {
    const conversion = { ...conversionFor(lookup.of(path), settings.eol), encoding: null };
    const written = toWorkTree(data, { ...conversion, lineEnds: "binary" }, "");
    return toRepository(written, conversion, () => null) ?? data;
  };
  // Both are looked at, as git does: a wrong one is told also where the other would count.
  const limits = ["merge.renameLimit", "diff.renameLimit"].map((key) => integer(config, key));
  const renameLimit = limits[0] ?? limits[1] ?? null;
  const defaultDriver = config.get("merge.default");
  return {
    attributes: (path) => lookup.of(path),
    style: conflictStyle(config.get("merge.conflictStyle")),
    drivers,
    ...(defaultDriver === null ? {} : { defaultDriver }),
    runDriver: driverRunner(workTree ?? gitDir),
    ...(config.getBoolean("merge.renormalize") ? { renormalize } : {}),
    ...(renameLimit === null ? {} : { renameLimit }),
    directoryRenames: directoryRenames(config),
    abbreviate: abbreviator(repository),
    submodule: (path) => submoduleObjects(repository, path),
  };
}

function conflictStyle(value: string | null): ConflictStyle {
  if (value === null || value === "merge") return "merge";
  if (value === "diff3" || value === "zdiff3") return value;
  throw new AgentqError("config-invalid", `merge.conflictStyle is ${JSON.stringify(value)}.`, {
    hint: "Use merge, diff3 or zdiff3.",
  });
}

/** A word that isn't known may mean something to a later git: it changes nothing. */
function directoryRenames(config: GitConfig): "conflict" | boolean {
  const key = "merge.directoryrenames";
  const last = config.entries().findLast((entry) => entry.key === key);
  if (last === undefined) return "conflict";
  if (last.value === null) throw withoutValue(key);
  return parseBoolean(last.value) ?? "conflict";
}

/** As git reads one: into 32 bits. */
function integer(config: GitConfig, key: string): number | null {
  const value = config.getInteger(key);
  if (value !== null && Math.abs(value) > 0x7fffffff) {
    throw new AgentqError("config-invalid", `${key} is ${value}, which is out of range.`, {
      details: { key },
    });
  }
  return value;
}

/** git takes none of these without a value, wherever in its files that stands. */
function refuseWithoutValue(config: GitConfig, keys: RegExp): void {
  const bare = config.entries().find(({ key, value }) => value === null && keys.test(key));
  if (bare !== undefined) throw withoutValue(bare.key);
}

function withoutValue(key: string): AgentqError {
  return new AgentqError("config-invalid", `${key} has no value.`, { details: { key } });
}

/**
 * Names commits in diff3 markers as git does: `core.abbrev` digits, or as many as a repository of this
 * size needs, and more until only one object has them.
 */
function abbreviator({ config, objects }: Repository): (oid: Oid) => string {
  const set = config.get("core.abbrev")?.toLowerCase();
  refuseWithoutValue(config, /^core\.abbrev$/);
  let digits = 0;
  return (oid) => {
    if (digits === 0) {
      if (set !== undefined && /^(no|off|false|)$/.test(set)) digits = 40;
      else if (set === undefined || set === "auto") {
        const bits = Math.floor(Math.log2(Math.max(1, packedObjects(objects.directories())))) + 1;
        digits = Math.max(7, Math.ceil(bits / 2));
      } else {
        digits = integer(config, "core.abbrev") ?? 7;
        if (digits < 4 || digits > 40) {
          throw new AgentqError("config-invalid", `core.abbrev is ${digits}, not 4 to 40.`, {
            details: { key: "core.abbrev" },
          });
        }
      }
    }
    let length = digits;
    while (length < 40 && objects.prefixed(oid.slice(0, length), 2).length > 1) length++;
    return oid.slice(0, length);
  };
}

/** How many objects the packs hold, by the last number of each index's table. */
function packedObjects(directories: readonly string[]): number {
  let count = 0;
  for (const directory of directories) {
    let names: string[] = [];
    try {
      names = readdirSync(join(directory, "pack")).filter((name) => name.endsWith(".idx"));
    } catch {
      continue;
    }
    for (const name of names) {
      const fd = openSync(join(directory, "pack", name), "r");
      try {
        const bytes = Buffer.alloc(4);
        if (readSync(fd, bytes, 0, 4, 8 + 255 * 4) === 4) count += bytes.readUInt32BE(0);
      } finally {
        closeSync(fd);
      }
    }
  }
  return count;
}

/** The objects of a submodule that is checked out, or was: null when it isn't here. */
function submoduleObjects(repository: Repository, path: string): ObjectReader | null {
  const name = pathFromBytes(path);
  const places = [join(repository.commonDir, "modules", name)];
  if (repository.workTree !== null) places.unshift(join(repository.workTree, name));
  for (const place of places) {
    try {
      const found = openRepository(place);
      // Searching upward from a submodule that isn't checked out ends in the superproject.
      if (found.commonDir === repository.commonDir) continue;
      return found.objects;
    } catch (error) {
      if (!isAgentqError(error, "not-a-repository", "repository-unsupported")) throw error;
    }
  }
  return null;
}
