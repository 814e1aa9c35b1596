/**
 * Entry of the binary. `--version` is answered before anything else is loaded, and without
 * `process.stdout`, whose streams take as long to load as the runtime takes to start.
 */
import process from "node:process";
import { codeAfterOutput, writeOut } from "./output/write.ts";
import { VERSION } from "./version.ts";

const argv = process.argv.slice(2);
if (argv.length === 1 && (argv[0] === "--version" || argv[0] === "-V")) {
  writeOut(`agentq ${VERSION}\n`);
  process.exitCode = codeAfterOutput(0);
} else {
  const { runCommandLine } = await import("./run.ts");
  process.exit(await runCommandLine(argv));
}
