/**
 * Entry of the binary. `--version`, and a `status` since which nothing has changed, are answered before
 * anything else is loaded: without `process.stdout`, whose streams take as long to load as the runtime
 * takes to start, and with the global `process`, since importing it makes all that it has.
 */
import { lastAnswer } from "./last-answer.ts";
import { codeAfterOutput, endRun, settleStderr, writeOut } from "./output/write.ts";
import { VERSION } from "./version.ts";

const argv = process.argv.slice(2);
if (
  argv.length === 1 && (argv[0] === "--version" || argv[0] === "-V") && !process.env.AGENTQ_JSON
) {
  writeOut(`agentq ${VERSION}\n`);
  process.exitCode = codeAfterOutput(0);
  settleStderr();
} else {
  const last = argv[0] === "status" ? lastAnswer(argv) : null;
  if (last?.output) {
    writeOut(last.output);
    endRun(codeAfterOutput(0));
  }
  const { runCommandLine } = await import("./run.ts");
  endRun(await runCommandLine(argv, last?.keep));
}
