/** A store whose files don't add up: half made by an interrupted `init`, or damaged later? */
import { AgentqError, isAgentqError } from "../errors.ts";
import { type StorePaths, TOKEN_PATTERN } from "./layout.ts";
import { shellWord } from "./shell-word.ts";
import type { StorePlatform } from "./types.ts";

/**
 * What `error` means: `init-incomplete` where there are payloads is `store-invalid`, since no store has
 * any before it is whole. Anything else stays what it is.
 */
export function orDamaged(platform: StorePlatform, paths: StorePaths, error: unknown): unknown {
  if (!isAgentqError(error, "init-incomplete")) return error;
  const payloads = countObjects(platform, paths);
  if (payloads === 0) return error;
  const objects = payloads === 1 ? "a payload" : `${payloads} payloads`;
  return new AgentqError(
    "store-invalid",
    `${error.message}: the store is damaged (it was in use: ${paths.objects} holds ${objects})`,
    {
      cause: error,
      hint:
        "Nothing was changed. Restore that file from a copy (of the same store, with no process " +
        `using it), then run: agentq store check --store ${shellWord(paths.root)}`,
      details: { ...error.details, payloads },
    },
  );
}

function countObjects({ files }: StorePlatform, { objects }: StorePaths): number {
  try {
    return files.readdir(objects).filter((name) => TOKEN_PATTERN.test(name)).length;
  } catch {
    // No such directory: a store has it before anything else.
    return 0;
  }
}
