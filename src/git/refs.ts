/**
 * Reading refs of a files backend: loose files first, then `packed-refs`, which is the order that never
 * misses a ref another git is packing at this moment.
 */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { AgentqError } from "../errors.ts";
import { type PackedRefs, withPackedRefs } from "./packed-refs.ts";
import { isPerWorktreeRef, isPseudoRef, isRefName } from "./ref-name.ts";
import type { Oid } from "./types.ts";

/** The two directories of a repository; the same one unless it is a linked worktree. */
export interface RefDirectories {
  readonly gitDir: string;
  readonly commonDir: string;
}

/** What a ref holds: an object id, or the name of another ref. */
export type RefValue =
  | { readonly oid: Oid; readonly target?: undefined }
  | { readonly target: string; readonly oid?: undefined };

export interface ResolvedRef {
  /** The ref at the end of the symbolic chain. */
  readonly name: string;
  /** null when that ref does not exist yet (an unborn branch). */
  readonly oid: Oid | null;
}

export interface Ref {
  readonly name: string;
  readonly oid: Oid;
}

/** As many symbolic refs as git follows. */
const MAX_SYMBOLIC = 5;

/** The file of a ref: in the worktree's own directory or in the common one. @throws `ref-name-invalid` */
export function refPath(dirs: RefDirectories, name: string): string {
  if (!(name.startsWith("refs/") ? isRefName(name) : isPseudoRef(name))) {
    throw new AgentqError("ref-name-invalid", `${JSON.stringify(name)} is not a valid ref name.`, {
      details: { ref: name },
    });
  }
  return `${isPerWorktreeRef(name) ? dirs.gitDir : dirs.commonDir}/${name}`;
}

/** Reads one loose ref; null when there is no such file. @throws `repository-corrupt`, `io-error` */
export function readLooseRef(dirs: RefDirectories, name: string): RefValue | null {
  const path = refPath(dirs, name);
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (cause) {
    const code = (cause as { code?: string }).code ?? "";
    // EISDIR: `refs/heads/a` is asked for where `refs/heads/a/b` exists.
    if (["ENOENT", "ENOTDIR", "EISDIR"].includes(code)) {
      return name === "HEAD" ? linkedHead(path) : null;
    }
    throw new AgentqError("io-error", `Cannot read the ref ${name} (${code || cause}).`, {
      cause,
      details: { ref: name, path },
    });
  }
  const symbolic = /^ref:[ \t\n]*(.*?)\s*$/s.exec(text);
  if (symbolic) {
    const target = symbolic[1]!;
    if (!isRefName(target) || !target.startsWith("refs/")) throw brokenRef(name, path);
    return { target };
  }
  const oid = /^([0-9a-fA-F]{40})(?:\s|$)/.exec(text)?.[1]?.toLowerCase();
  if (oid === undefined) throw brokenRef(name, path);
  if (name === "HEAD") return linkedHead(path) ?? { oid };
  return { oid };
}

/** HEAD as a symbolic link, which git once wrote; null when it is a file. */
function linkedHead(path: string): RefValue | null {
  try {
    const target = readlinkSync(path);
    return target.startsWith("refs/") && isRefName(target) ? { target } : null;
  } catch {
    return null;
  }
}

function brokenRef(name: string, path: string): AgentqError {
  return new AgentqError("repository-corrupt", `The ref ${name} is broken (${path}).`, {
    hint:
      "Look at the file; git fsck names what it could have been, and the reflog has its history.",
    details: { ref: name, path },
  });
}

/**
 * What a ref holds at this moment, straight from the files, never from a cache: the reading to do under
 * the ref's lock. null when it does not exist.
 */
export function readRefUncached(dirs: RefDirectories, name: string): RefValue | null {
  const loose = readLooseRef(dirs, name);
  if (loose || isPerWorktreeRef(name)) return loose;
  const packed = withPackedRefs(dirs.commonDir, (refs) => refs.get(name));
  return packed && { oid: packed.oid };
}

/** Follows symbolic refs to the end. null when `name` itself does not exist. */
export function resolveRef(dirs: RefDirectories, name: string): ResolvedRef | null {
  let current = name;
  for (let depth = 0; depth <= MAX_SYMBOLIC; depth++) {
    const value = readRefUncached(dirs, current);
    if (value === null) return depth === 0 ? null : { name: current, oid: null };
    if (value.oid !== undefined) return { name: current, oid: value.oid };
    current = value.target;
  }
  throw new AgentqError(
    "repository-corrupt",
    `The ref ${name} leads through too many symbolic refs.`,
    {
      details: { ref: name },
    },
  );
}

/** Loose refs below `directory` (a ref name ending in `/`), as far as they can begin with `prefix`. */
function* looseNames(dirs: RefDirectories, directory: string, prefix: string): Generator<string> {
  const base = `${isPerWorktreeRef(directory + "x") ? dirs.gitDir : dirs.commonDir}/${directory}`;
  let entries;
  try {
    entries = readdirSync(base, { withFileTypes: true });
  } catch (cause) {
    const code = (cause as { code?: string }).code ?? "";
    if (["ENOENT", "ENOTDIR"].includes(code)) return;
    throw new AgentqError("io-error", `Cannot list ${base} (${code || cause}).`, {
      cause,
      details: { path: base },
    });
  }
  for (const entry of entries) {
    const name = directory + entry.name;
    if (entry.isDirectory()) {
      const inner = name + "/";
      if (inner.startsWith(prefix) || prefix.startsWith(inner)) {
        yield* looseNames(dirs, inner, prefix);
      }
    } else if (name.startsWith(prefix) && isRefName(name)) yield name;
  }
  // A linked worktree has its own refs/bisect and the like beside the common refs.
  if (directory === "refs/" && dirs.gitDir !== dirs.commonDir) {
    for (const own of ["refs/bisect/", "refs/worktree/", "refs/rewritten/"]) {
      if (own.startsWith(prefix) || prefix.startsWith(own)) yield* looseNames(dirs, own, prefix);
    }
  }
}

/**
 * Every ref whose full name starts with one of `prefixes` (all under `refs/`), by name, symbolic ones
 * followed. Broken refs are left out, as git leaves them out of listings; reading one by name throws.
 */
export function listRefs(dirs: RefDirectories, prefixes: readonly string[]): Ref[] {
  const found = new Map<string, Oid>();
  const symbolic: string[] = [];
  const broken = new Set<string>();
  for (const prefix of prefixes) {
    const directory = prefix.slice(0, prefix.lastIndexOf("/") + 1);
    const start = directory.startsWith("refs/") ? directory : "refs/";
    if (!start.startsWith(prefix) && !prefix.startsWith(start)) continue;
    for (const name of looseNames(dirs, start, prefix)) {
      try {
        const value = readLooseRef(dirs, name);
        if (value?.oid !== undefined) found.set(name, value.oid);
        else if (value) symbolic.push(name);
      } catch (error) {
        if (!(error instanceof AgentqError) || error.code === "io-error") throw error;
        broken.add(name);
      }
    }
  }
  withPackedRefs(dirs.commonDir, (packed: PackedRefs) => {
    for (const prefix of prefixes) {
      for (const { name, oid } of packed.list(prefix)) {
        if (!found.has(name) && !broken.has(name) && isRefName(name)) found.set(name, oid);
      }
    }
  });
  for (const name of symbolic) {
    const oid = resolveRef(dirs, name)?.oid;
    if (oid) found.set(name, oid);
    else found.delete(name);
  }
  return [...found].map(([name, oid]) => ({ name, oid }))
    .sort((a, b) => a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
}

export interface RefStore {
  /** What the ref itself holds. null when it does not exist. */
  read(name: string): RefValue | null;
  /** Symbolic refs followed. null when the ref does not exist. */
  resolve(name: string): ResolvedRef | null;
  /** The id at the end, or null when there is none. */
  get(name: string): Oid | null;
  list(...prefixes: string[]): Ref[];
}

export function openRefStore(dirs: RefDirectories): RefStore {
  return {
    read: (name) => readRefUncached(dirs, name),
    resolve: (name) => resolveRef(dirs, name),
    get: (name) => resolveRef(dirs, name)?.oid ?? null,
    list: (...prefixes) => listRefs(dirs, prefixes),
  };
}
