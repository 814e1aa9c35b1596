/** The hint to create a queue, as a command that makes it in the place that was asked, and not in another. */
import { AgentqError, ERROR_KINDS, isAgentqError } from "../../../src/errors.ts";
import { quoted } from "../../../src/queuefs/names.ts";
import { isQueueName } from "../../../src/store/names.ts";
import { shellWord } from "../../../src/store/shell-word.ts";
import type { Context } from "../../context.ts";
import { sourceOf } from "../../settings.ts";
import type { Flags } from "../../spec.ts";
import { stateOption } from "../../state.ts";

/**
 * The same error with the words of the command line that say where; what has a hint of its own keeps it. The
 * address of a server may hold a password and isn't repeated.
 */
export function withCreateHint(context: Context, flags: Flags, error: unknown): unknown {
  if (!isAgentqError(error, "backend-missing", "queue-not-found")) return error;
  const { code, message, retryable, details } = error;
  if (error.hint !== ERROR_KINDS[code].hint) return error;
  const hint = hintFor(context, flags, code, details?.queue);
  return new AgentqError(code, message, {
    cause: error.cause ?? error,
    hint,
    retryable,
    ...(details === undefined ? {} : { details }),
  });
}

function hintFor(
  context: Context,
  flags: Flags,
  code: AgentqError["code"],
  queue: unknown,
): string {
  const { where, also } = placeOf(context, flags);
  const create = (name: string) => `\`agentq queue create ${name}${where}\`${also}`;
  if (code === "backend-missing") {
    return `Create a queue there with ${create("NAME")}, or correct --backend.`;
  }
  const list = `\`agentq queue ls${where}\`${also}`;
  if (typeof queue !== "string") return `Create it with ${create("NAME")}; ${list} lists them.`;
  if (/^store:/.test(String(flags.backend ?? "store:")) && !isQueueName(queue)) {
    return `No queue of a store can be called ${
      quoted(queue)
    } (a–z, 0–9, dot, dash, underscore; no Windows ` +
      `device name): ${list} lists those that are there.`;
  }
  return `Create it with ${create(shellWord(queue))}; ${list} lists them.`;
}

/** What a command needs to mean the same place, as words to type; said instead where they may hold a password. */
function placeOf(context: Context, flags: Flags): { where: string; also: string } {
  if (flags.backend === undefined) return { where: stateOption(context), also: "" };
  // Set by the environment or git's configuration, where it means the next command too.
  if (sourceOf(flags, "backend") !== null) return { where: "", also: "" };
  const backend = String(flags.backend);
  return /^rediss?:/.test(backend)
    ? { where: "", also: " with the same --backend" }
    : { where: ` --backend ${shellWord(backend)}`, also: "" };
}
