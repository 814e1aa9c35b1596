/** Which hooks an origin has. */
import { accessSync, constants } from "node:fs";
import { join, resolve } from "node:path";

export interface HookHost {
  /** The repository's git directory: where hooks run. */
  readonly gitDir: string;
  /** `core.hooksPath`, or the `hooks` directory. */
  readonly hooksDir: string;
  /** The same by a path that leads into a held repository: it tells which hooks there are. */
  readonly heldHooksDir?: string;
}

/** A {@link HookHost.heldHooksDir}: as {@link hooksDirectory}, of a repository that is held. */
export function heldHooksDirectory(
  gitDir: string,
  commonDir: string,
  setting: string | null,
): string {
  const relative = setting !== null && setting !== "" && !/^(?:\/|~$|~\/)/.test(setting);
  // Not joined: `..` must count from the directory, not from its descriptor's path.
  return relative ? `${gitDir}/${setting}` : hooksDirectory(gitDir, commonDir, setting);
}

/** Where hooks are looked for. A relative `core.hooksPath` counts from where hooks run. */
export function hooksDirectory(gitDir: string, commonDir: string, setting: string | null): string {
  if (setting === null || setting === "") return join(commonDir, "hooks");
  const home = process.env.HOME ?? "/";
  const path = setting === "~" || setting.startsWith("~/") ? home + setting.slice(1) : setting;
  return resolve(gitDir, path);
}

/** True when there is a hook of this name that is executable: another isn't run, as with git. */
export function hasHook(host: HookHost, name: string): boolean {
  return lookAt(host, name) === "executable";
}

/** The hooks of git's receive-pack, by their names, that are there and ignored for not being executable. */
export function ignoredHooks(host: HookHost): string[] {
  return HOOKS.filter((name) => lookAt(host, name) === "closed");
}

const HOOKS = ["pre-receive", "update", "reference-transaction", "post-receive", "post-update"];

function lookAt(host: HookHost, name: string): "executable" | "closed" | null {
  try {
    accessSync(`${host.heldHooksDir ?? host.hooksDir}/${name}`, constants.X_OK);
    return "executable";
  } catch (error) {
    return (error as { code?: string }).code === "EACCES" ? "closed" : null;
  }
}
