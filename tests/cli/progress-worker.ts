/** Says things on stderr as a command does that waits for a lock; `tty`: as on a terminal. */
import process from "node:process";
import { createProgress } from "../../cli/output/progress.ts";
import { endRun } from "../../cli/output/write.ts";

if (process.argv[2] === "tty") Object.defineProperty(process.stderr, "isTTY", { value: true });
const progress = createProgress(false, (text) => text);
const tick = () => progress.update("jobs: 0 done");
for (let second = 0; second < 3; second++) {
  tick();
  progress.waiting("waiting for one");
}
tick();
progress.waiting("waiting for another");
progress.waiting(null);
progress.waiting("waiting for another");
progress.waiting(null);
tick();
progress.line("jobs: away");
progress.waiting("waiting for another");
progress.waiting(null);
progress.update("jobs: 1 done");
progress.clear();
endRun(0);
