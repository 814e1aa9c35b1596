/**
 * The landing queue must cost what the work costs, not what the history behind it weighs.
 *
 *   big       a pack of 500 MB and 80,000 commits, beside a tiny clone and beside git's plumbing
 *   queues    10, 1,000 and 100,000 tickets, by files and over http, and in fresh clones
 *   refs      an origin with 100,000 refs
 *   checkout  20,000 files, beside git (bench/checkout.ts)
 *   steady    one lander, 1,000 tickets
 *
 * Usage: bun bench/scale.ts [ROUNDS] [PART…]. Needs dist/agentq (or AGENTQ_BIN), git and GNU time, 3 GB
 * in the temporary directory; the fixtures are kept there. AGENTQ_BENCH_SMALL=1 for a quick run.
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import process from "node:process";
import { measureBig } from "./scale/big.ts";
import { figuresOver, openBench } from "./scale/measure.ts";
import { measureQueues } from "./scale/queues.ts";
import { measureRefs } from "./scale/refs.ts";
import { measureSteady } from "./scale/steady.ts";

const small = Boolean(process.env.AGENTQ_BENCH_SMALL);
const PARTS = ["big", "queues", "refs", "checkout", "steady"] as const;
const given = process.argv.slice(2);
const rounds = Number(given.find((one) => /^\d+$/.test(one)) ?? 9);
const named = given.filter((one) => !/^\d+$/.test(one));
for (const name of named) {
  if (!(PARTS as readonly string[]).includes(name)) {
    console.error(`no part ${name}; there are: ${PARTS.join(", ")}`);
    process.exit(64);
  }
}
const bench = openBench(rounds);
try {
  for (const part of named.length > 0 ? named : PARTS) {
    console.log(`\n== ${part}`);
    switch (part) {
      case "big":
        await measureBig(bench, small);
        break;
      case "queues":
        await measureQueues(bench);
        break;
      case "refs":
        await measureRefs(bench);
        break;
      case "checkout":
        spawnSync(
          process.execPath,
          [join(import.meta.dirname!, "checkout.ts"), small ? "2000" : "20000"],
          { stdio: "inherit" },
        );
        break;
      case "steady":
        await measureSteady(bench, small ? 100 : 1000);
        break;
    }
  }
  if (figuresOver() > 0) console.log(`\n${figuresOver()} figures are over what they are held to`);
} finally {
  bench.close();
}
