/**
 * Shows a sign of life, or asks about one; run as a process of its own.
 *
 *   life-child.ts show DIR      prints the mark and this process's pid; then does as the lines on its input say:
 *                               `child` (starts one that outlives it, prints its pid), `end`, `abandon`
 *   life-child.ts ask DIR MARK  prints what the sign says
 */
import { spawn } from "node:child_process";
import process from "node:process";
import { createInterface } from "node:readline";
import { askLife, showLife } from "../../src/platform/life.ts";

const [what, directory, mark] = process.argv.slice(2) as [string, string, string];
if (what === "ask") console.log(askLife(directory, mark));
else {
  const life = showLife(directory, (mode) => mode);
  console.log(`${life?.mark} ${process.pid}`);
  for await (const line of createInterface({ input: process.stdin })) {
    if (line === "child") {
      const child = spawn("sleep", ["60"], { detached: true, stdio: "ignore" });
      child.unref();
      console.log(child.pid);
    } else if (line === "end") life?.end();
    else if (line === "abandon") life?.abandon();
    if (line !== "child") console.log("done");
  }
}
