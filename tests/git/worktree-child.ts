/** Run as a process of its own by the tests that kill it: `leave CLONE THEIRS TREE` or `prepare CLONE DIR REV`. */
import process from "node:process";
import { leaveMergeInProgress, type UnfinishedMerge } from "../../src/git/in-progress.ts";
import { openRepository } from "../../src/git/repository.ts";
import { prepareWorktree } from "../../src/git/worktree.ts";

const [command, clone, ...rest] = process.argv.slice(2);
const repository = openRepository(clone!);
process.stdout.write("started\n");
if (command === "leave") {
  const merge = JSON.parse(rest[0]!) as UnfinishedMerge;
  const outcome = await leaveMergeInProgress(repository, merge, { message: "Merge" });
  process.stdout.write(JSON.stringify(outcome) + "\n");
} else {
  const worktree = await prepareWorktree(repository, rest[0]!, "verify", rest[1]!);
  process.stdout.write("prepared\n");
  // Holds the worktree until it is killed.
  setInterval(() => worktree.path, 1000);
}
