/**
 * Whose repository it is that was found on the way up from the current directory. One that belongs to
 * somebody else may be a trap: its configuration names programs that would run as us. As git, it is
 * refused unless `safe.directory` lists it; one that was named (`--repo`, GIT_DIR) was meant.
 */
import { realpathSync, statSync } from "node:fs";
import { AgentqError } from "../errors.ts";
import { expandHome } from "./config-sources.ts";
import type { Repository } from "./repository.ts";

type Env = Readonly<Record<string, string | undefined>>;

/**
 * @param me the user this process acts as; undefined where systems know no owners
 * @throws `repository-foreign`
 */
export function refuseForeign(
  repository: Repository,
  env: Env,
  me: number | undefined = process.geteuid?.(),
): void {
  if (me === undefined || env.GIT_DIR) return;
  const owners = new Set([me]);
  // Root by way of sudo acts for whoever called it.
  if (me === 0 && /^\d+$/.test(env.SUDO_UID ?? "")) owners.add(Number(env.SUDO_UID));
  const { workTree, gitDir } = repository;
  const places = workTree === null ? [gitDir] : [workTree, gitDir];
  const foreign = places.find((path) => !owners.has(statSync(path).uid));
  if (foreign === undefined || isSafe(repository, workTree ?? gitDir, env)) return;
  throw new AgentqError(
    "repository-foreign",
    `${foreign} belongs to another user (uid ${statSync(foreign).uid}, and this is ${me}).`,
    { details: { path: foreign } },
  );
}

/** What the settings say that the repository itself has no hand in. */
function isSafe(repository: Repository, path: string, env: Env): boolean {
  let safe = false;
  for (const { key, value, level } of repository.config.entries()) {
    if (key !== "safe.directory" || level === "local" || level === "worktree") continue;
    if (!value) safe = false;
    else if (value === "*") safe = true;
    else {
      const named = real(expandHome(value.replace(/\/\*$/, ""), env));
      const below = value.endsWith("/*") && real(path).startsWith(`${named}/`);
      safe ||= below || real(path) === named;
    }
  }
  return safe;
}

function real(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}
