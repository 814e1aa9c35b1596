/** How merges are made in a clone, by its configuration and attributes. */
import { Buffer } from "node:buffer";
import { closeSync, openSync, readdirSync, readSync } from "node:fs";
import { join } from "node:path";
import { AgentqError, isAgentqError } from "../errors.ts";
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
  const renameLimit = config.getInteger("merge.renameLimit") ??
    config.getInteger("diff.renameLimit");
  const defaultDriver = config.get("merge.default");
  return {
    attributes: (path) => lookup.of(path),
    style: conflictStyle(config.get("merge.conflictStyle")),
    drivers,
    ...(defaultDriver === null ? {} : { defaultDriver }),
    runDriver: driverRunner(workTree ?? gitDir),
    ...(config.getBoolean("merge.renormalize") ? { renormalize } : {}),
    ...(renameLimit === null ? {} : { renameLimit }),
    directoryRenames: directoryRenames(repository),
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

function directoryRenames({ config }: Repository): "conflict" | boolean {
  const value = config.get("merge.directoryRenames");
  if (value === null || value.toLowerCase() === "conflict") return "conflict";
  return config.getBoolean("merge.directoryRenames") ?? "conflict";
}

/**
 * Names commits in diff3 markers as git does: `core.abbrev` digits, or as many as a repository of this
 * size needs, and more until only one object has them.
 */
function abbreviator({ config, objects }: Repository): (oid: Oid) => string {
  const set = config.get("core.abbrev")?.toLowerCase();
  let digits = 0;
  return (oid) => {
    if (digits === 0) {
      if (set === "no" || set === "off" || set === "false") digits = 40;
      else if (set === undefined || set === "auto") {
        const bits = Math.floor(Math.log2(Math.max(1, packedObjects(objects.directories())))) + 1;
        digits = Math.max(7, Math.ceil(bits / 2));
      } else digits = Math.min(40, Math.max(4, config.getInteger("core.abbrev") ?? 7));
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
