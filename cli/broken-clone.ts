/** A clone as it can be had: whole, or its config alone, or nothing but what is wrong with it. */
import { AgentqError, isAgentqError } from "../src/errors.ts";
import type { GitConfig } from "../src/git/config.ts";
import { refuseForeign } from "../src/git/ownership.ts";
import { openConfigOnly, type Repository } from "../src/git/repository.ts";
import { absolutePath, currentDirectoryOrNull } from "../src/platform/directory.ts";

export interface FoundClone {
  readonly repository: Repository | null;
  /** The clone's, where it can be read. */
  readonly config: GitConfig | null;
  /** Where relative urls of a clone count from that is no {@link FoundClone.repository}. */
  readonly base: string | null;
  /** Why there is no clone though one is named or was found. */
  readonly problem: AgentqError | null;
}

/** What `open` gives, or what can be had in its place. `repo`: the clone that was named. */
export function cloneOrConfig(open: () => Repository | null, repo: string | undefined): FoundClone {
  try {
    const repository = open();
    // Read once, so that a broken file is found here.
    repository?.config.entries();
    return { repository, config: repository?.config ?? null, base: null, problem: null };
  } catch (problem) {
    if (!(problem instanceof AgentqError)) throw problem;
    const bare = isAgentqError(problem, "repository-unsupported") ? configAlone(repo) : null;
    return { repository: null, config: null, base: null, ...bare, problem };
  }
}

/** Null where it can't be read, or belongs to somebody who isn't trusted with the programs it names. */
function configAlone(repo: string | undefined): { config: GitConfig; base: string } | null {
  const here = currentDirectoryOrNull();
  try {
    if (repo === undefined && here === null) return null;
    const env = repo === undefined ? process.env : {};
    const found = openConfigOnly(repo === undefined ? here! : absolutePath(repo), { env });
    if (repo === undefined) refuseForeign(found, process.env);
    found.config.entries();
    return { config: found.config, base: found.workTree ?? found.gitDir };
  } catch (error) {
    if (!(error instanceof AgentqError)) throw error;
    return null;
  }
}
