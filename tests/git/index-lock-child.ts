/** Takes the lock of a repository's index, says so and holds it until it is killed: index-lock-child.ts DIR [bare] */
import { join } from "node:path";
import process from "node:process";
import { lockIndex } from "../../src/git/index-file.ts";
import { openRepository } from "../../src/git/repository.ts";

const [directory, how] = process.argv.slice(2) as [string, string | undefined];
const repository = openRepository(directory);
lockIndex(join(repository.gitDir, "index"), how === "bare" ? null : repository);
process.stdout.write("held\n");
setInterval(() => {}, 1000);
