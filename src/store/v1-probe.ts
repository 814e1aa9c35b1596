/** Whether a file system has what v1 needs, asked before a queue is made there: permissions and hardlinks. */
import { closeSync, existsSync, linkSync, openSync, unlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import { randomUUID } from "node:crypto";
import { AgentqError } from "../errors.ts";
import { type FileSystem, nodeFiles } from "../platform/files.ts";
import { FILE_MODE } from "./layout.ts";
import { toTyped } from "./v1-errors.ts";

/**
 * Where `directory` lies, or is to be made, by a file of its own that is gone again afterwards. Throws
 * `helper-unavailable` where the system refuses hardlinks, `mode-unsupported` where permissions aren't kept. Where no
 * file can be made nothing is known: what comes next says why.
 */
export function requireV1Place(
  directory: string,
  files: Pick<FileSystem, "lstat" | "hasModes"> = nodeFiles,
): void {
  let at = directory;
  while (!existsSync(at) && dirname(at) !== at) at = dirname(at);
  // By a name that v1 and its readers take for what is not yet written.
  const [probe, second] = [1, 2].map(() =>
    join(at, `.agentq-probe-v1.${process.pid}.${randomUUID()}.tmp`)
  ) as [string, string];
  try {
    closeSync(openSync(probe, "wx", FILE_MODE));
  } catch {
    return;
  }
  try {
    try {
      linkSync(probe, second);
    } catch (error) {
      throw toTyped("make a v1 queue in", directory, error);
    }
    const mode = files.hasModes ? files.lstat(probe)?.mode : FILE_MODE;
    // Gone already: somebody tidies up there.
    if (mode === undefined || mode === FILE_MODE) return;
    throw new AgentqError(
      "mode-unsupported",
      `the file system of ${directory} can't keep permissions (0600 became ${
        mode.toString(8).padStart(4, "0")
      }), which v1 queues need`,
      {
        hint:
          "Use another file system, or a v2 store (store:DIR) made by agentq store init --allow-open-modes.",
        details: { path: directory },
      },
    );
  } finally {
    for (const path of [second, probe]) {
      try {
        unlinkSync(path);
      } catch {
        // The second was never made, as a rule.
      }
    }
  }
}
