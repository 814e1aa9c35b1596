/**
 * Runs the benchmarks of bench/, one after another: `deno task bench [NAME…]`.
 *
 * Each prints ratios measured side by side in one run, the medians they come from, and what they are
 * held to. Nothing here fails on a slow machine: the figures are for reading.
 */
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import process from "node:process";

const root = resolve(import.meta.dirname!, "..");
const wanted = process.argv.slice(2);
const all = readdirSync(join(root, "bench")).filter((file) => file.endsWith(".ts")).map((file) =>
  file.replace(/\.ts$/, "")
);
const unknown = wanted.filter((name) => !all.includes(name));
if (unknown.length > 0) {
  console.error(`no benchmark ${unknown.join(", ")}; there are: ${all.join(", ")}`);
  process.exit(64);
}
let code = 0;
// These need a repository as their argument: run them by themselves.
for (
  const name of wanted.length > 0
    ? wanted
    : all.filter((one) => !["merge", "merge-parity", "gate-history", "gate-losses"].includes(one))
) {
  console.log(`\n== ${name}`);
  const run = spawnSync(
    join(root, "node_modules", ".bin", "bun"),
    [join(root, "bench", `${name}.ts`)],
    { cwd: root, stdio: "inherit" },
  );
  if (run.status !== 0) code = 1;
}
process.exit(code);
