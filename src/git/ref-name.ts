/** Names of refs: what git check-ref-format accepts, and which directory a ref belongs to. */
import { AgentqError } from "../errors.ts";

/** True for a full ref name with at least two parts that git accepts. */
export function isRefName(name: string): boolean {
  return name.includes("/") && isRefComponentList(name);
}

function isRefComponentList(name: string): boolean {
  if (name === "" || name === "@" || name.length > 4096) return false;
  if (/[\x00-\x20\x7f~^:?*[\\]|\.\.|@\{|\/\/|^\/|\/$|\.$/.test(name)) return false;
  return name.split("/").every((part) => !part.startsWith(".") && !part.endsWith(".lock"));
}

/** True for `HEAD`, `ORIG_HEAD`, `MERGE_HEAD`…: a pseudoref that lies beside `refs/`. */
export function isPseudoRef(name: string): boolean {
  return /^[A-Z][A-Z_]*$/.test(name);
}

/**
 * Accepts a full ref name (`refs/…`) as `git check-ref-format` does, and nothing that could leave `refs/`.
 * @throws `ref-name-invalid`
 */
export function checkRefName(name: string): string {
  if (name.startsWith("refs/") && isRefName(name)) return name;
  throw new AgentqError("ref-name-invalid", `${JSON.stringify(name)} is not a valid ref name.`, {
    details: { ref: name },
  });
}

/** Accepts a branch name (without `refs/heads/`) as `git check-ref-format --branch` does. */
export function checkBranchName(name: string): string {
  if (!name.startsWith("-") && name !== "HEAD" && isRefName(`refs/heads/${name}`)) return name;
  throw new AgentqError("ref-name-invalid", `${JSON.stringify(name)} is not a valid branch name.`, {
    details: { ref: name },
  });
}

/** True for refs that each worktree has for itself. */
export function isPerWorktreeRef(name: string): boolean {
  return !name.startsWith("refs/") || /^refs\/(bisect|worktree|rewritten)\//.test(name);
}
