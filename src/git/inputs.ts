/**
 * What opening a repository and reading its refs rests on, as questions that a later run can ask again
 * (`src/platform/inputs.ts`). Null wherever that is more than the usual: nothing is left out of a list.
 */
import { lstatSync, readdirSync, readFileSync, realpathSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Input } from "../platform/inputs.ts";
import type { Repository } from "./repository.ts";

/** More refs than a queue has; a listing of more is read anew each time. */
const MAX_REFS = 32;

/** What {@link openRepository} found from `start` on upwards, without help from the environment. */
export function repositoryInputs(repository: Repository, start: string): Input[] | null {
  const { gitDir, commonDir, workTree } = repository;
  const settings = repository.config.inputs();
  if (settings === null) return null;
  const inputs: Input[] = [];
  for (let at = realpathSync(start);;) {
    const dotGit = join(at, ".git");
    const stat = statSync(dotGit, { throwIfNoEntry: false });
    inputs.push([stat?.isFile() ? "text" : "kind", dotGit]);
    if (stat?.isFile() || dotGit === gitDir) break;
    inputs.push(["there", join(at, "HEAD")]);
    if (at === gitDir) break;
    const up = dirname(at);
    if (stat || up === at || lstatSync(join(at, "HEAD"), { throwIfNoEntry: false })) return null;
    at = up;
  }
  return [
    ...inputs,
    ["there", join(gitDir, "HEAD")],
    ["text", join(gitDir, "commondir")],
    ["text", join(gitDir, "gitdir")],
    ["kind", join(commonDir, "objects")],
    ["kind", join(commonDir, "refs")],
    ["place", gitDir],
    ...(workTree === null ? [] : [["place", workTree] as const]),
    ...settings,
  ];
}

/** What a listing of the refs below `prefixes` and the name of HEAD's branch rest on. */
export function refInputs(
  { gitDir, commonDir }: Repository,
  prefixes: readonly string[],
): Input[] | null {
  const inputs: Input[] = [["text", join(commonDir, "packed-refs")]];
  const head = symbolic(join(gitDir, "HEAD"));
  if (head === null) return null;
  const refs = new Set([head]);
  for (const prefix of prefixes) {
    const slash = prefix.lastIndexOf("/") + 1;
    if (!list(commonDir, prefix.slice(0, slash), prefix.slice(slash), inputs, refs)) return null;
  }
  inputs.push(["text", join(gitDir, "HEAD")]);
  for (const ref of refs) {
    const path = join(commonDir, ref);
    // A symbolic ref leads on to others.
    if (symbolic(path) !== null) return null;
    inputs.push(["text", path]);
  }
  return inputs;
}

/** The loose refs whose names begin with `directory` and `prefix`. False: too many. */
function list(
  commonDir: string,
  directory: string,
  prefix: string,
  inputs: Input[],
  refs: Set<string>,
): boolean {
  const path = `${commonDir}/${directory}`;
  inputs.push(["names", path, prefix]);
  for (const entry of entriesOf(path)) {
    if (!entry.name.startsWith(prefix)) continue;
    if (!entry.isDirectory()) refs.add(directory + entry.name);
    else if (!list(commonDir, `${directory}${entry.name}/`, "", inputs, refs)) return false;
    if (refs.size + inputs.length > MAX_REFS) return false;
  }
  return true;
}

function entriesOf(path: string) {
  try {
    return readdirSync(path, { withFileTypes: true });
  } catch {
    return [];
  }
}

/** The ref that a symbolic one names; null for one that isn't, or isn't there. */
function symbolic(path: string): string | null {
  try {
    return /^ref:\s*(refs\/\S*)/.exec(readFileSync(path, "latin1"))?.[1] ?? null;
  } catch {
    return null;
  }
}
