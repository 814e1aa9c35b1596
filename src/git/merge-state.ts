/** The files by which git knows that a merge is in progress, written as `git merge` writes them. */
import fs from "node:fs";
import { join } from "node:path";
import { ioError } from "../platform/durable.ts";
import { pathFromBytes } from "./quote.ts";
import type { GitConfig } from "./config.ts";
import type { Oid } from "./types.ts";

export interface MergeState {
  /** What HEAD is and stays at. */
  readonly ours: Oid;
  readonly theirs: Oid;
  /** The merged tree with its marked files. */
  readonly tree: Oid;
  /** The proposed message, without the list of conflicts. */
  readonly message: string;
  /** Unmerged paths (byte strings). */
  readonly conflicts: readonly string[];
  /** False for a conflict that leaves no path unmerged too (a directory renamed to two places). */
  readonly clean?: boolean;
}

/**
 * MERGE_HEAD comes last: it is what makes a merge of all this. ORIG_HEAD, AUTO_MERGE and MERGE_MSG mean
 * nothing without it.
 */
export function writeMergeState(gitDir: string, config: GitConfig, state: MergeState): void {
  writeSynced(join(gitDir, "ORIG_HEAD"), state.ours + "\n");
  writeSynced(join(gitDir, "AUTO_MERGE"), state.tree + "\n");
  writeSynced(join(gitDir, "MERGE_MSG"), mergeMessage(config, state));
  writeSynced(join(gitDir, "MERGE_MODE"), "");
  writeSynced(join(gitDir, "MERGE_HEAD"), state.theirs + "\n");
}

/** The message with git's hint about conflicts, commented out in the way that the clone asks for. */
export function mergeMessage(
  config: GitConfig,
  state: Pick<MergeState, "message" | "conflicts" | "clean">,
): string {
  let text = state.message.replace(/\n*$/, "\n");
  if (state.clean ?? state.conflicts.length === 0) return text;
  const char = commentPrefix(config);
  text += "\n";
  if (config.get("commit.cleanup") === "scissors") {
    text += `${char} ------------------------ >8 ------------------------\n` +
      `${char} Do not modify or remove the line above.\n` +
      `${char} Everything below it will be ignored.\n${char}\n`;
  }
  text += `${char} Conflicts:\n`;
  for (const path of state.conflicts) text += `${char}\t${pathFromBytes(path)}\n`;
  return text;
}

/** A git that takes one character only refuses longer ones itself. */
function commentPrefix(config: GitConfig): string {
  const configured = config.get("core.commentString") ?? config.get("core.commentChar") ?? "";
  return configured === "" || configured === "auto" || configured.includes("\n") ? "#" : configured;
}

/** Replaces a file whole; its content is on disk before its name. */
export function writeSynced(path: string, content: string): void {
  const temp = `${path}.agentq-new`;
  try {
    const fd = fs.openSync(temp, "w", 0o666);
    try {
      fs.writeSync(fd, content);
      fs.fsyncSync(fd);
    } finally {
      fs.closeSync(fd);
    }
    fs.renameSync(temp, path);
  } catch (error) {
    throw ioError("write", path, error);
  }
}
