/** Running a short command to its end where nothing else can go on meanwhile: merge drivers. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import { AgentqError } from "../errors.ts";
import { nodeChildProcess } from "./builtins.ts";

/**
 * Runs `command(paths)` with `sh -c` in `cwd`, its output on stderr, and gives its exit status as a shell
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
    const run = nodeChildProcess().spawnSync("sh", ["-c", command(paths)], {
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
