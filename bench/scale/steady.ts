/**
 * A lander's steady state: one process lands 1,000 tickets, each with a verify command, and is looked
 * at from outside all the while: memory, descriptors, children, and what it leaves on the disk.
 */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { agentq, type Bench, clone, git, median, mirror, say, tell } from "./measure.ts";

interface Look {
  readonly landed: number;
  readonly rss: number;
  readonly descriptors: number;
  readonly children: number;
  readonly packs: number;
  readonly loose: number;
  readonly worktrees: number;
  /** Files in the clone's git directory and the state that are neither objects nor refs. */
  readonly others: number;
}

export async function measureSteady(bench: Bench, tickets: number): Promise<void> {
  const seed = join(bench.work, "steady-seed");
  git(bench, bench.work, "init", "-q", "-b", "main", seed);
  importTickets(bench, seed, tickets);
  const origin = mirror(bench, seed, "steady.git");
  const dir = clone(bench, origin, "steady");
  const state = join(bench.work, "state-steady");
  const env = { ...bench.env, AGENTQ_STATE: state };
  for (let i = 0; i < tickets; i++) {
    const args = ["submit", "--no-wait", "--candidate", `origin/work/${i}`, "--verify-cmd", "true"];
    const run = spawnSync(agentq, args, { cwd: dir, env, encoding: "utf8" });
    if (run.status !== 0) throw new Error(run.stderr);
  }
  const began = performance.now();
  const lander = spawn(agentq, ["land", "--json"], {
    cwd: dir,
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let complaints = "";
  lander.stderr.on("data", (chunk) => complaints += chunk);
  const ended = new Promise<number | null>((resolve) => lander.on("close", resolve));
  const looks: Look[] = [];
  let landed = 0;
  for await (const line of createInterface({ input: lander.stdout })) {
    if (JSON.parse(line).outcome !== "landed") throw new Error(line);
    landed++;
    // After each tenth; one ticket before the end, while it is sure to be there.
    if ((landed % Math.max(1, tickets / 10) === 0 && landed < tickets) || landed === tickets - 1) {
      const one = look(lander.pid!, dir, state, landed);
      if (one) looks.push(one);
    }
  }
  if (await ended !== 0 || landed !== tickets) throw new Error(`${landed} landed\n${complaints}`);
  const seconds = (performance.now() - began) / 1000;
  console.log(`-- one lander, ${tickets} tickets with a check each, ${seconds.toFixed(1)} s`);
  for (const one of looks) {
    tell(
      `after ${one.landed}`,
      `${
        (one.rss / 2 ** 20).toFixed(1)
      } MiB, ${one.descriptors} descriptors, ${one.children} children, ` +
        `${one.packs} packs, ${one.loose} loose, ${one.worktrees} worktrees, ${one.others} other files`,
    );
  }
  // The first tenth warms up. Packs come and go, and with them descriptors and what is cached of them:
  // what grows shows in the later half beside the earlier.
  const steady = looks.slice(1);
  const halves = (of: (one: Look) => number) => {
    const middle = steady.length >> 1;
    return [steady.slice(0, middle), steady.slice(middle)].map((half) => half.map(of)) as [
      number[],
      number[],
    ];
  };
  const most = (of: (one: Look) => number) => Math.max(...steady.map(of));
  const [before, after] = halves((one) => one.rss);
  say("memory, later half ÷ earlier", "", median(after) / median(before), 1.2);
  say("memory, at the end ÷ after a fifth", "", steady.at(-1)!.rss / steady[0]!.rss, 1.2);
  say("memory, most", "", most((one) => one.rss) / 2 ** 20, 200, " MiB");
  say(
    "descriptors, most",
    "two a pack, of 32 in each repository",
    most((one) => one.descriptors),
    150,
    "",
  );
  say("children at once", "", most((one) => one.children), 1, "");
  say("packs in the clone", "", most((one) => one.packs), 40, "");
  say("worktrees", "", most((one) => one.worktrees), 1, "");
  const [others, lastOthers] = halves((one) => one.others);
  say("other files, later half ÷ earlier", "", median(lastOthers) / median(others), 1.05);
}

/** Branches work/0…, each from the first commit with a file of its own. */
function importTickets(bench: Bench, dir: string, tickets: number): void {
  let stream = "";
  const head = (ref: string, message: string) =>
    `commit refs/heads/${ref}\nmark :${
      ref === "main" ? 1 : 2
    }\ncommitter A <a@b> 1700000000 +0000\n` +
    `data ${message.length}\n${message}\n`;
  stream += head("main", "first");
  for (let i = 0; i < 500; i++) stream += `M 100644 inline d${i % 20}/f${i}\ndata 6\nfirst\n\n`;
  for (let i = 0; i < tickets; i++) {
    stream += head(`work/${i}`, `work ${i}`) + "from :1\n" +
      `M 100644 inline new/${i % 50}/${i}\ndata 5\nwork\n\n`;
  }
  const run = spawnSync("git", ["fast-import", "--quiet"], {
    cwd: dir,
    env: bench.env,
    input: stream,
  });
  if (run.status !== 0) throw new Error(String(run.stderr));
}

function look(pid: number, dir: string, state: string, landed: number): Look | null {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    const gitDir = join(dir, ".git");
    const objects = readdirSync(join(gitDir, "objects"));
    const loose = objects.filter((name) => name.length === 2)
      .reduce((sum, name) => sum + readdirSync(join(gitDir, "objects", name)).length, 0);
    const worktrees = join(gitDir, "agentq", "worktrees");
    return {
      landed,
      rss: Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) * 1024,
      descriptors: readdirSync(`/proc/${pid}/fd`).length,
      children: readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ")
        .filter((one) => one !== "").length,
      packs: readdirSync(join(gitDir, "objects", "pack")).filter((name) => name.endsWith(".pack"))
        .length,
      loose,
      worktrees: existsSync(worktrees)
        ? readdirSync(worktrees).filter((name) => !/\.(beat|lock)$/.test(name)).length
        : 0,
      others: filesBelow(state) + filesBelow(gitDir, ["objects", "refs", "logs", "agentq"]),
    };
  } catch {
    // It ended while it was looked at.
    return null;
  }
}

function filesBelow(dir: string, without: readonly string[] = []): number {
  if (!existsSync(dir)) return 0;
  let count = 0;
  for (const entry of readdirSync(dir, { withFileTypes: true })) {
    if (without.includes(entry.name)) continue;
    count += entry.isDirectory() ? filesBelow(join(dir, entry.name)) : 1;
  }
  return count;
}
