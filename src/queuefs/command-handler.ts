/**
 * A handler that is any program: the payload on its standard input, exit 0 acknowledges, anything else
 * counts an attempt. It runs in a process group that ends with it and with this process.
 */
import { Buffer } from "node:buffer";
import { statSync } from "node:fs";
import { AgentqError } from "../errors.ts";
import { currentDirectory } from "../platform/directory.ts";
import { notStarted, type OnOutput, runCommand } from "../platform/process.ts";
import { withoutRunSettings } from "../platform/run-settings.ts";
import { requireContent, requireProgram, whyNotRun } from "./command-program.ts";
import { quoted } from "./names.ts";
import type { Handler } from "./worker.ts";

export interface CommandHandlerOptions {
  readonly cwd?: string;
  /** Milliseconds after which the program is killed; that counts as a failure. Without end unless given. */
  readonly timeoutMs?: number;
  /** A promise makes the program wait for it, see `runCommand`. */
  readonly onOutput?: OnOutput;
}

/**
 * Makes the handler for `argv`. The program sees AGENTQ_QUEUE, AGENTQ_MESSAGE_ID and AGENTQ_ATTEMPT.
 * Throws `command-not-started` at once where it can't be run, before a message is taken; the handler
 * throws it, which ends the worker, where the program has gone since.
 */
export function commandHandler(
  queue: string,
  argv: readonly string[],
  options: CommandHandlerOptions = {},
): Handler {
  const program = argv[0] ?? "";
  const command = `exec ${argv.map(shellWord).join(" ")}`;
  const { cwd = currentDirectory(), timeoutMs = Infinity, onOutput } = options;
  requireProgram(program, cwd);
  return async ({ id, data }, { signal, attempt }) => {
    requireContent(program, cwd);
    const result = await runCommand(command, {
      cwd,
      env: {
        ...withoutRunSettings(),
        AGENTQ_QUEUE: queue,
        AGENTQ_MESSAGE_ID: id,
        AGENTQ_ATTEMPT: String(attempt),
      },
      timeoutMs,
      signal,
      input: data,
      ...(onOutput ? { onOutput } : {}),
    }).catch((error) => {
      // The system says so of a program whose directory isn't there, too.
      requireDirectory(cwd);
      throw error;
    });
    if (result.exit === 0 && !result.timedOut) return;
    // What the shell says of a program that it couldn't run; programs may say it themselves.
    if (result.exit === 126 || result.exit === 127) {
      requireDirectory(cwd);
      requireProgram(program, cwd);
      const why = whyNotRun(program, cwd, lastLines(result.tail));
      if (why !== null) throw notStarted(quoted(program), why);
    }
    const how = result.timedOut
      ? `killed after ${timeoutMs / 1000} s`
      : result.exit === null
      ? `ended by ${result.killedBy}`
      : `exit status ${result.exit}`;
    const last = lastLine(result.tail);
    throw new Error(last === "" ? how : `${how}: ${last}`);
  };
}

/** Throws `current-directory-gone`: no program can be run in a directory that was removed. */
function requireDirectory(cwd: string): void {
  if (statSync(cwd, { throwIfNoEntry: false }) !== undefined) return;
  throw new AgentqError("current-directory-gone", `the worker's directory was deleted: ${cwd}`, {
    hint: "Start it again in a directory that stays.",
  });
}

/** For `sh`: everything inside single quotes is itself. */
function shellWord(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}

function lastLines(output: Uint8Array): string {
  return Buffer.from(output.subarray(-4096)).toString("utf8");
}

function lastLine(output: Uint8Array): string {
  const lines = lastLines(output).split("\n");
  return (lines.map((line) => line.trim()).filter((line) => line !== "").at(-1) ?? "").slice(
    0,
    500,
  );
}
