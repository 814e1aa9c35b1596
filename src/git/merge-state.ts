/** The files by which git knows that a merge is in progress, written as `git merge` writes them. */
import { Buffer } from "node:buffer";
import fs from "node:fs";
import { join } from "node:path";
import { ioError } from "../platform/durable.ts";
import { byteString } from "../platform/path-bytes.ts";
import type { GitConfig } from "./config.ts";
import type { Oid } from "./types.ts";
import { compileWildmatch } from "./wildmatch.ts";

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

/**
 * `Merge remote-tracking branch 'origin/main' into work`. The second half is left out for branches that
 * `merge.suppressDest` matches.
 * @param label the remote-tracking branch; @param head what HEAD names, null when it is detached
 */
export function mergeTitle(config: GitConfig, label: string, head: string | null): string {
  const into = head === null ? "HEAD" : head.replace(/^refs\/heads\//, "");
  let patterns = ["main", "master"];
  const configured = config.getAll("merge.suppressDest");
  if (configured.length > 0) patterns = configured.slice(configured.lastIndexOf("") + 1);
  const name = byteString(into);
  const suppressed = patterns.some((pattern) => compileWildmatch(byteString(pattern))(name));
  return `Merge remote-tracking branch '${label}'${suppressed ? "" : ` into ${into}`}`;
}

/**
 * The message with git's hint about conflicts, commented out in the way that the clone asks for: text as
 * UTF-8, names as the bytes they are.
 */
export function mergeMessage(
  config: GitConfig,
  state: Pick<MergeState, "message" | "conflicts" | "clean">,
): Buffer {
  let text = state.message.replace(/\n*$/, "\n");
  if (state.clean ?? state.conflicts.length === 0) return Buffer.from(text);
  const char = commentPrefix(config);
  text += "\n";
  if (config.get("commit.cleanup") === "scissors") {
    text += `${char} ------------------------ >8 ------------------------\n` +
      `${char} Do not modify or remove the line above.\n` +
      `${char} Everything below it will be ignored.\n${char}\n`;
  }
  text += `${char} Conflicts:\n`;
  // A name may have several lines. Each is commented out: none of them may become part of the message.
  const names = state.conflicts.flatMap((path) => `\t${path}`.split("\n")).map((line) =>
    `${byteString(char)}${line === "" || line.startsWith("\t") ? "" : " "}${line}\n`
  );
  return Buffer.concat([Buffer.from(text), Buffer.from(names.join(""), "latin1")]);
}

/** A git that takes one character only refuses longer ones itself. */
function commentPrefix(config: GitConfig): string {
  const configured = config.get("core.commentString") ?? config.get("core.commentChar") ?? "";
  return configured === "" || configured === "auto" || configured.includes("\n") ? "#" : configured;
}

/** Replaces a file whole; its content is on disk before its name. */
export function writeSynced(path: string, content: string | Uint8Array): void {
  const temp = `${path}.agentq-new`;
  try {
    const fd = fs.openSync(temp, "w", 0o666);
    try {
      fs.writeFileSync(fd, content);
      fs.fsyncSync(fd);
    } finally {
      fs.closeSync(fd);
    }
    fs.renameSync(temp, path);
  } catch (error) {
    throw ioError("write", path, error);
  }
}
