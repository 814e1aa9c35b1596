/** The parts of the configuration that say how a work tree's files relate to the index. */
import { Buffer } from "node:buffer";
import fs from "node:fs";
import { join } from "node:path";
import { createHash } from "../platform/hash.ts";
import { type AttributeFiles, type AttributeLookup, attributeLookup } from "./attributes.ts";
import type { GitConfig } from "./config.ts";
import type { EolSettings } from "./eol.ts";
import type { StatTrust } from "./file-stat.ts";
import { type IgnoreFiles, type IgnoreLookup, ignoreLookup } from "./ignore.ts";
import type { Repository } from "./repository.ts";
import { isFileMode, isTreeMode, parseTree } from "./tree.ts";
import type { TreeLeaf } from "./tree-leaves.ts";
import type { ObjectReader, Oid } from "./types.ts";

export interface WorkTreeSettings {
  /** core.fileMode: the executable bit on disk means something. */
  readonly fileMode: boolean;
  /** core.symlinks: links are links; else files that hold the target. */
  readonly symlinks: boolean;
  /** core.ignoreCase. */
  readonly ignoreCase: boolean;
  readonly trust: StatTrust;
  readonly eol: EolSettings;
}

/** @throws `config-invalid` */
export function workTreeSettings(config: GitConfig): WorkTreeSettings {
  const windows = process.platform === "win32";
  const flag = (key: string, otherwise: boolean) => config.getBoolean(key) ?? otherwise;
  const autocrlf = /^input$/i.test(config.get("core.autocrlf") ?? "")
    ? "input"
    : flag("core.autocrlf", false);
  const eol = config.get("core.eol")?.toLowerCase();
  return {
    fileMode: flag("core.fileMode", !windows),
    symlinks: flag("core.symlinks", !windows),
    ignoreCase: flag("core.ignoreCase", false),
    trust: {
      ctime: flag("core.trustCtime", true),
      full: config.get("core.checkStat")?.toLowerCase() !== "minimal",
    },
    eol: { autocrlf, eol: eol === "lf" || eol === "crlf" ? eol : windows ? "crlf" : "lf" },
  };
}

/**
 * A digest of everything outside the tree that decides which bytes a blob is written as. When it differs
 * from the time a file was written, the file's stat doesn't prove that it is right.
 */
export function conversionDigest(
  repository: Pick<Repository, "commonDir" | "config">,
  env: Readonly<Record<string, string | undefined>> = process.env,
): string {
  const { symlinks, eol } = workTreeSettings(repository.config);
  const digest = createHash("sha256").update(JSON.stringify({ symlinks, eol }));
  for (const content of outsideAttributes(repository, env)) {
    digest.update(content === null ? "-" : `${content.length}:`).update(content ?? "");
  }
  return digest.digest("hex");
}

/** info/attributes, core.attributesFile and the machine's own file. */
function outsideAttributes(
  { commonDir, config }: Pick<Repository, "commonDir" | "config">,
  env: Readonly<Record<string, string | undefined>>,
): [info: Uint8Array | null, global: Uint8Array | null, system: Uint8Array | null] {
  const noSystem = /^(?:1|true|yes|on)$/i.test(env.GIT_ATTR_NOSYSTEM ?? "");
  return [
    readOrNull(join(commonDir, "info", "attributes")),
    readUserFile(config, "core.attributesFile", "attributes", env),
    noSystem ? null : readOrNull("/etc/gitattributes"),
  ];
}

/** Attributes as they hold in a repository: its info/attributes, core.attributesFile, the machine's file. */
export function repositoryAttributes(
  repository: Pick<Repository, "commonDir" | "config">,
  files: AttributeFiles,
  env: Readonly<Record<string, string | undefined>> = process.env,
): AttributeLookup {
  const [info, global, system] = outsideAttributes(repository, env);
  return attributeLookup({
    files,
    info,
    global,
    system,
    ignoreCase: repository.config.getBoolean("core.ignoreCase") ?? false,
  });
}

/** Ignore rules as they hold in a repository: its info/exclude and core.excludesFile too. */
export function repositoryIgnores(
  repository: Pick<Repository, "commonDir" | "config">,
  files: IgnoreFiles,
  env: Readonly<Record<string, string | undefined>> = process.env,
): IgnoreLookup {
  const { commonDir, config } = repository;
  return ignoreLookup({
    files,
    info: readOrNull(join(commonDir, "info", "exclude")),
    global: readUserFile(config, "core.excludesFile", "ignore", env),
    ignoreCase: config.getBoolean("core.ignoreCase") ?? false,
  });
}

/** The file a setting names, or the one in the user's git directory. */
function readUserFile(
  config: GitConfig,
  key: string,
  name: string,
  env: Readonly<Record<string, string | undefined>>,
): Uint8Array | null {
  const configured = config.getPath(key);
  if (configured !== null) return configured === "" ? null : readOrNull(configured);
  if (env.XDG_CONFIG_HOME) return readOrNull(join(env.XDG_CONFIG_HOME, "git", name));
  return env.HOME ? readOrNull(join(env.HOME, ".config", "git", name)) : null;
}

function readOrNull(path: string): Uint8Array | null {
  try {
    return fs.readFileSync(path);
  } catch {
    return null;
  }
}

/** `.gitattributes` (or another name) of each directory of a tree. Trees are read as they are asked for. */
export function treeFiles(
  objects: ObjectReader,
  tree: Oid,
  name = ".gitattributes",
): AttributeFiles {
  const trees = new Map<string, Oid | null>([["", tree]]);
  const treeOf = (directory: string): Oid | null => {
    const known = trees.get(directory);
    if (known !== undefined) return known;
    const slash = directory.lastIndexOf("/");
    const parent = treeOf(directory.slice(0, Math.max(slash, 0)));
    const entry = parent === null ? undefined : find(objects, parent, directory.slice(slash + 1));
    const oid = entry !== undefined && isTreeMode(entry.mode) ? entry.oid : null;
    trees.set(directory, oid);
    return oid;
  };
  return (directory) => {
    const oid = treeOf(directory);
    const entry = oid === null ? undefined : find(objects, oid, name);
    return entry !== undefined && isFileMode(entry.mode) ? objects.read(entry.oid).data : null;
  };
}

function find(objects: ObjectReader, tree: Oid, name: string) {
  return parseTree(objects.read(tree).data, tree).find((entry) => entry.path === name);
}

/** The same from a sorted list of files (an index, an expanded tree), where that is at hand already. */
export function leafFiles(
  objects: ObjectReader,
  leaves: readonly TreeLeaf[],
  name = ".gitattributes",
): AttributeFiles {
  const found = new Map<string, Oid>();
  for (const { path, mode, oid } of leaves) {
    if (!path.endsWith(name) || !isFileMode(mode)) continue;
    if (path === name) found.set("", oid);
    else if (path.endsWith("/" + name)) found.set(path.slice(0, -name.length - 1), oid);
  }
  return (directory) => {
    const oid = found.get(directory);
    return oid === undefined ? null : objects.read(oid).data;
  };
}

/** The same from the work tree; a symbolic link is not followed and counts as no file. */
export function workTreeFiles(workTree: string, name = ".gitattributes"): AttributeFiles {
  const flags = fs.constants.O_RDONLY | (fs.constants.O_NOFOLLOW ?? 0);
  return (directory) => {
    let fd: number;
    try {
      fd = fs.openSync(
        join(workTree, Buffer.from(directory, "latin1").toString("utf8"), name),
        flags,
      );
    } catch {
      return null;
    }
    try {
      return fs.readFileSync(fd);
    } catch {
      return null;
    } finally {
      fs.closeSync(fd);
    }
  };
}

/** Asks `first`, then `second` where the first has no file. */
export function eitherFiles(first: AttributeFiles, second: AttributeFiles): AttributeFiles {
  return (directory) => first(directory) ?? second(directory);
}
