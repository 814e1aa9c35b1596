/** Making a new repository, as `git init` lays it out: for the demo's origin and for caches of our own. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { AgentqError } from "../errors.ts";

export interface InitOptions {
  bare: boolean;
  /** The branch HEAD names, without refs/heads/. */
  branch: string;
  /** Lines put into `config` after `[core]`, complete with section headers. */
  config?: string;
}

/**
 * Creates a repository in `dir` (made when missing) and returns its git directory.
 * @throws `io-error` when there is one already, or it cannot be written
 */
export function initRepository(dir: string, options: InitOptions): string {
  const gitDir = options.bare ? dir : join(dir, ".git");
  try {
    for (
      const sub of ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info", "hooks"]
    ) {
      mkdirSync(join(gitDir, sub), { recursive: true });
    }
    const core =
      `[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = ${options.bare}\n`;
    writeFileSync(join(gitDir, "config"), core + (options.config ?? ""), { flag: "wx" });
    // HEAD last: without it, a directory is not a repository, to git and to us.
    writeFileSync(join(gitDir, "HEAD"), `ref: refs/heads/${options.branch}\n`, { flag: "wx" });
  } catch (error) {
    throw new AgentqError("io-error", `Cannot create a repository in ${gitDir}: ${String(error)}`, {
      cause: error,
    });
  }
  return gitDir;
}
