/**
 * Whose repository it is: one that belongs to somebody else may be a trap. As git, it is refused unless
 * `safe.directory` lists it
 *
 * - where it was found on the way up from the current directory: its configuration names programs that
 *   would run as us. One that was named (`--repo`, GIT_DIR) was meant;
 * - where it is pushed to, named or not: its hooks would run as us. Reading it runs nothing.
 */
import { realpathSync, statSync } from "node:fs";
import { AgentqError } from "../errors.ts";
import { expandHome } from "./config-sources.ts";
import type { Repository } from "./repository.ts";
import { sharedRepositoryMode } from "./shared-repository.ts";

type Owned = Pick<Repository, "workTree" | "gitDir" | "commonDir" | "config">;
type Env = Readonly<Record<string, string | undefined>>;

/**
 * @param me the user this process acts as; undefined where systems know no owners
 * @throws `repository-foreign`
 */
export function refuseForeign(
  repository: Owned,
  env: Env,
  me: number | undefined = process.geteuid?.(),
): void {
  if (me === undefined || env.GIT_DIR) return;
  const { workTree, gitDir } = repository;
  const places = workTree === null ? [gitDir] : [workTree, gitDir];
  const foreign = firstForeign(places, env, me);
  if (foreign === undefined || isSafe(repository, workTree ?? gitDir, env)) return;
  throw new AgentqError(
    "repository-foreign",
    `${foreign} belongs to another user (uid ${statSync(foreign).uid}, and this is ${me}).`,
    { details: { path: foreign } },
  );
}

/**
 * The same for an origin on this machine that is about to be pushed to.
 * @throws `repository-foreign`
 */
export function refuseForeignOrigin(
  origin: Owned,
  env: Env,
  me: number | undefined = process.geteuid?.(),
): void {
  if (me === undefined) return;
  const { workTree, gitDir, commonDir } = origin;
  const foreign = firstForeign([...new Set([gitDir, commonDir])], env, me);
  if (foreign === undefined) return;
  if (isSafe(origin, gitDir, env) || (workTree !== null && isSafe(origin, workTree, env))) return;
  throw new AgentqError(
    "repository-foreign",
    `the origin ${foreign} belongs to another user (uid ${
      statSync(foreign).uid
    }, and this is ${me}), whose hooks would run as this one.`,
    {
      hint: `If you trust it: git config --global --add safe.directory ${
        /^[\w./+-]+$/.test(foreign) ? foreign : `'${foreign.replaceAll("'", `'\\''`)}'`
      }`,
      details: { path: foreign },
    },
  );
}

/** Whether files that are pushed from here would belong to somebody else than the origin does. */
export function leavesForeignFiles(
  origin: Owned,
  me: number | undefined = process.geteuid?.(),
): boolean {
  return me !== undefined && statSync(origin.gitDir).uid !== me &&
    sharedRepositoryMode(origin.config) === 0;
}

function firstForeign(places: readonly string[], env: Env, me: number): string | undefined {
  const owners = new Set([me]);
  // Root by way of sudo acts for whoever called it.
  if (me === 0 && /^\d+$/.test(env.SUDO_UID ?? "")) owners.add(Number(env.SUDO_UID));
  return places.find((path) => !owners.has(statSync(path).uid));
}

/** What the settings say that the repository itself has no hand in. */
function isSafe(repository: Pick<Repository, "config">, path: string, env: Env): boolean {
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
