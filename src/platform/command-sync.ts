/** Running a short command to its end where nothing else can go on meanwhile: merge drivers. */
import { Buffer, isUtf8 } from "node:buffer";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import { AgentqError } from "../errors.ts";
import { nodeChildProcess } from "./builtins.ts";

/**
 * Runs `command(paths)`, a byte string, with `sh -c` in `cwd`, its output on stderr, and gives its exit status as a shell
 * shows it (128 + signal when one ended it) and what the file `answer` holds afterwards. The files are
 * written to a directory of their own before, and removed after.
 * @throws `command-not-started` when there is no shell
 */
export function runOnFiles(
  files: Readonly<Record<string, Uint8Array>>,
  answer: string,
  command: (paths: Readonly<Record<string, string>>) => string,
  cwd: string,
): { status: number; data: Uint8Array } {
  const directory = mkdtempSync(join(tmpdir(), "agentq-merge-"));
  try {
    const paths: Record<string, string> = {};
    for (const [name, data] of Object.entries(files)) {
      paths[name] = join(directory, name);
      writeFileSync(paths[name], data, { mode: 0o600 });
    }
    const run = nodeChildProcess().spawnSync("sh", shellArguments(command(paths), directory), {
      cwd,
      stdio: ["ignore", 2, 2],
    });
    if (run.error) {
      throw new AgentqError("command-not-started", "Cannot run sh.", { cause: run.error });
    }
    const signal = run.signal === null ? 0 : 128 + (constants.signals[run.signal] ?? 0);
    let data: Uint8Array;
    try {
      data = readFileSync(join(directory, answer));
    } catch {
      data = new Uint8Array(0);
    }
    return { status: run.status ?? signal, data };
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** An argument can only be text. What isn't UTF-8 is read by the shell from a file. */
function shellArguments(command: string, directory: string): string[] {
  const bytes = Buffer.from(command, "latin1");
  if (isUtf8(bytes)) return ["-c", bytes.toString("utf8")];
  const script = join(directory, "command");
  writeFileSync(script, bytes, { mode: 0o600 });
  return ["-c", '. "$0"', script];
}
