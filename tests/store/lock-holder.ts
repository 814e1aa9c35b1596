/** Takes a store's lock, says so, and sits on it until it is killed. */
import process from "node:process";
import { tryExclusive } from "../../src/store/exclusive.ts";
import { storePaths } from "../../src/store/layout.ts";
import { storePlatform } from "../../src/store/platform.ts";

tryExclusive(storePlatform({}), storePaths(process.argv[2]!).lock);
process.stdout.write("held\n");
setInterval(() => {}, 1000);
