/** A clone with a pack of 500 MB and 80,000 commits, beside a tiny one and beside git's plumbing. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { bigRepository } from "../fixtures/big-repository.ts";
import {
  agentq,
  type Bench,
  clone,
  git,
  inTurns,
  median,
  mib,
  mirror,
  say,
  script,
  slower,
  submitBeside,
  take,
  timesOf,
} from "./measure.ts";

export async function measureBig(bench: Bench, small: boolean): Promise<void> {
  const fixture = await bigRepository(
    small ? { commits: 4000, bytes: 20 * 2 ** 20 } : { commits: 80_000, bytes: 500 * 2 ** 20 },
  );
  const ours = side(bench, fixture, "big-ours");
  const theirs = side(bench, fixture, "big-theirs");
  const tiny = side(bench, tinyRepository(bench), "tiny");
  for (const one of [ours, tiny]) {
    one.commit();
    await take(bench, one.dir, agentq, ["submit", "--no-wait", "--json"]);
  }
  theirs.commit();
  await take(bench, theirs.dir, script, ["enqueue"]);

  const status = ["status", "--json"];
  const [big, little] = await inTurns(bench.rounds * 2, [
    () => take(bench, ours.dir, agentq, status),
    () => take(bench, tiny.dir, agentq, status),
  ]);
  const peak = (runs: readonly { rss: number }[]) => median(runs.map((run) => run.rss));
  say(
    "status, big ÷ tiny",
    timesOf(big!, little!),
    slower(big!, little!),
    1.5,
  );
  say("status, memory", `tiny ${mib(peak(little!))}`, peak(big!) / 2 ** 20, 80, " MiB");

  const what = "submit --no-wait ÷ the script";
  const submit = await submitBeside(bench, { ours, theirs }, bench.rounds, what);
  say("submit --no-wait, memory", "", peak(submit) / 2 ** 20, 120, " MiB");

  await take(bench, ours.dir, agentq, ["land", "--json"]);
  await take(bench, theirs.dir, script, ["land"]);
  const [land, landing] = await inTurns(bench.rounds, [async () => {
    ours.commit();
    await take(bench, ours.dir, script, ["enqueue"]);
    const took = await take(bench, ours.dir, agentq, ["land", "--json"]);
    if (!took.stdout.includes('"outcome":"landed"')) throw new Error(took.stdout);
    return took;
  }, async () => {
    theirs.commit();
    await take(bench, theirs.dir, script, ["enqueue"]);
    return take(bench, theirs.dir, script, ["land"]);
  }]);
  say(
    "land one small merge ÷ the script",
    timesOf(land!, landing!),
    slower(land!, landing!),
    1.0,
  );
  say(
    "land one small merge, memory",
    `the script's largest process ${mib(peak(landing!))}`,
    peak(land!) / 2 ** 20,
    200,
    " MiB",
  );
}

let commits = 0;

/** An origin and a clone of it, in which one commit after the other is made on the same base. */
function side(bench: Bench, fixture: string, name: string) {
  const origin = mirror(bench, fixture, `${name}.git`);
  const dir = clone(bench, origin, name);
  const base = git(bench, dir, "rev-parse", "HEAD");
  return {
    dir,
    origin,
    commit() {
      git(bench, dir, "reset", "-q", "--hard", base);
      writeFileSync(join(dir, `new-${++commits}`), `${commits}\n`);
      git(bench, dir, "add", `new-${commits}`);
      git(bench, dir, "commit", "-q", "-m", `work ${commits}`);
    },
  };
}

function tinyRepository(bench: Bench): string {
  const dir = join(bench.work, "tiny-seed");
  git(bench, bench.work, "init", "-q", "-b", "main", dir);
  writeFileSync(join(dir, "file"), "one\n");
  git(bench, dir, "add", "-A");
  git(bench, dir, "commit", "-q", "-m", "first");
  return dir;
}
