/** Entry of the binary. `--version` is answered before anything else is loaded. */
import process from "node:process";
import { VERSION } from "./version.ts";

const argv = process.argv.slice(2);
if (argv.length === 1 && (argv[0] === "--version" || argv[0] === "-V")) {
  process.stdout.write(`agentq ${VERSION}\n`);
} else {
  const { runCommandLine } = await import("./run.ts");
  process.exit(await runCommandLine(argv));
}
