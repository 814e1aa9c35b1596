/** The permissions of what is made in a repository that several users share. */
import { AgentqError } from "../errors.ts";
import type { GitConfig } from "./config.ts";
import { parseBoolean } from "./config-file.ts";

/**
 * What `core.sharedRepository` adds to the permission bits of new files: 0o660 for group, 0o664 for
 * all, an explicit octal value as it is, 0 for umask.
 */
export function sharedRepositoryMode(config: GitConfig): number {
  const value = config.get("core.sharedRepository");
  if (value === null) return 0;
  if (value === "umask") return 0;
  if (value === "group") return 0o660;
  if (["all", "world", "everybody"].includes(value)) return 0o664;
  if (/^[0-7]+$/.test(value)) {
    const mode = parseInt(value, 8);
    if (mode === 0) return 0;
    if (mode === 1) return 0o660;
    if (mode === 2) return 0o664;
    if ((mode & 0o600) === 0o600) return mode & 0o666;
  } else {
    const boolean = parseBoolean(value);
    if (boolean !== undefined) return boolean ? 0o660 : 0;
  }
  throw new AgentqError("config-invalid", `core.sharedRepository is ${JSON.stringify(value)}.`);
}
