/** Where a lander keeps objects and worktrees. */
import fs from "node:fs";
import { join } from "node:path";
import { initRepository } from "../git/init.ts";
import { openRepository, type Repository } from "../git/repository.ts";
import { randomBytes } from "../platform/hash.ts";

/**
 * The repository a lander works in: the clone, unless there is none or its history is cut off, in which
 * case a bare one below `directory`, kept for the next time.
 */
export function landingRepository(
  clone: Repository | null,
  directory: string,
): Repository {
  if (clone && clone.shallow.size === 0) return clone;
  if (!fs.existsSync(join(directory, "HEAD"))) {
    // Made aside and renamed, so that nobody ever finds half of it.
    const made = `${directory}.${randomBytes(8).toString("hex")}`;
    try {
      initRepository(made, { bare: true, branch: "main" });
      fs.renameSync(made, directory);
    } catch (error) {
      fs.rmSync(made, { recursive: true, force: true });
      if (!fs.existsSync(join(directory, "HEAD"))) throw error;
    }
  }
  return openRepository(directory);
}
