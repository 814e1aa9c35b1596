/** What the tests of work trees share: reading a directory whole, making trees that git would refuse. */
import { Buffer } from "node:buffer";
import { lstatSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { openRepository } from "../../src/git/repository.ts";
import { git, tryGit } from "../helpers/git.ts";

/** Every path below `dir` except `.git`, with what is there: kind, executable bit, content. */
export function snapshot(dir: string): Record<string, string> {
  const found: Record<string, string> = {};
  const walk = (below: string) => {
    for (const name of readdirSync(join(dir, below)).sort()) {
      const path = below === "" ? name : `${below}/${name}`;
      if (path === ".git") continue;
      const full = join(dir, path);
      const stat = lstatSync(full);
      if (stat.isSymbolicLink()) found[path] = `link ${readlinkSync(full)}`;
      else if (stat.isDirectory()) {
        if (readdirSync(full).length === 0) found[path] = "empty directory";
        walk(path);
      } else {
        found[path] = `${stat.mode & 0o100 ? "executable" : "file"} ${
          readFileSync(full, "latin1")
        }`;
      }
    }
  };
  walk("");
  return found;
}

/** What `git worktree add` makes of a commit, in a directory of its own. */
export function checkedOutByGit(repo: string, commit: string, dir: string): Record<string, string> {
  git(repo, "worktree", "add", "-q", "--detach", "--force", dir, commit);
  const made = snapshot(dir);
  git(repo, "worktree", "remove", "--force", dir);
  return made;
}

export interface RawEntry {
  mode: string;
  /** Byte string; may be what git itself refuses. */
  name: string;
  oid: string;
}

/** Stores a tree with exactly these entries, in this order, unchecked. */
export function rawTree(repo: string, entries: readonly RawEntry[]): string {
  const parts = entries.flatMap(({ mode, name, oid }) => [
    Buffer.from(`${mode} ${name}\0`, "latin1"),
    Buffer.from(oid, "hex"),
  ]);
  const repository = openRepository(repo);
  try {
    return repository.objects.write("tree", Buffer.concat(parts));
  } finally {
    repository.close();
  }
}

export function rawBlob(repo: string, content: string): string {
  return tryGit(repo, ["hash-object", "-w", "--stdin"], { input: content }).stdout.trim();
}

export function rawCommit(repo: string, tree: string): string {
  return git(repo, "commit-tree", "-m", "raw", tree);
}
