/** Where local state is kept, and what to say where it can't be. */
import { isAbsolute, join } from "node:path";
import { AgentqError, isAgentqError } from "../src/errors.ts";
import { shellWord } from "../src/store/shell-word.ts";
import { nodeOs } from "../src/platform/builtins.ts";

/** $XDG_STATE_HOME/agentq (a relative one doesn't count, as its specification says), else ~/.local/state/agentq. @throws `state-unavailable` where there is no home */
export function defaultStateDirectory(): string {
  const xdg = process.env.XDG_STATE_HOME;
  if (xdg && isAbsolute(xdg)) return join(xdg, "agentq");
  let home: string | null;
  try {
    home = nodeOs().homedir();
  } catch {
    home = null; // HOME isn't set, and the user is in no passwd file.
  }
  if (home !== null && isAbsolute(home)) return join(home, ".local", "state", "agentq");
  throw new AgentqError(
    "state-unavailable",
    home
      ? `there is nowhere to keep local state: HOME is ${
        JSON.stringify(home)
      }, which is no absolute path`
      : "there is nowhere to keep local state: HOME isn't set, and this user has no home directory",
  );
}

/** What a command that is advised needs to find the same state directory; empty where it does by itself. */
export function stateOption({ stateDirectory }: { readonly stateDirectory: string }): string {
  try {
    if (stateDirectory === (process.env.AGENTQ_STATE || defaultStateDirectory())) return "";
  } catch {
    // There is no default.
  }
  return ` --state ${shellWord(stateDirectory)}`;
}

const NOT_TO_BE_MADE: readonly unknown[] = ["EACCES", "EPERM", "EROFS", "ENOTDIR", "ENOENT"];

/** An error that says that the state directory, or what is above or in it, can't be made, said as that. */
export function asStateUnavailable(stateDirectory: string, error: unknown): unknown {
  if (!isAgentqError(error, "io-error")) return error;
  const { path, errno } = error.details ?? {};
  if (typeof path !== "string" || !NOT_TO_BE_MADE.includes(errno)) return error;
  if (!`${stateDirectory}/`.startsWith(`${path}/`) && !path.startsWith(`${stateDirectory}/`)) {
    return error;
  }
  return new AgentqError(
    "state-unavailable",
    `the state directory ${stateDirectory} can't be used: ${error.message}`,
    { cause: error, details: { ...error.details, path: stateDirectory } },
  );
}
