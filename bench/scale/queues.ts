/**
 * The same commands with 10, 1,000 and 100,000 tickets in the queue, half of them landed: in a clone
 * that has worked with the queue, in fresh clones, by files and over http.
 */
import { join } from "node:path";
import process from "node:process";
import { longQueue } from "../fixtures/long-queue.ts";
import { serveGit } from "../../tests/git/transport-http/server.ts";
import {
  agentq,
  type Bench,
  clone,
  git,
  inTurns,
  mirror,
  ms,
  ratioOf,
  say,
  take,
  tell,
} from "./measure.ts";

const SIZES = [10, 1000, 100_000];
const LIMIT = 1.3;

/** One queue, the clone that works with it, and its own state directory. */
interface Side {
  readonly tickets: number;
  readonly landed: number;
  readonly origin: string;
  readonly dir: string;
  readonly env: Record<string, string>;
  url: string;
}

export async function measureQueues(bench: Bench): Promise<void> {
  const sides = SIZES.map((tickets): Side => {
    const { dir: fixture, landed } = longQueue(tickets);
    const origin = mirror(bench, fixture, `queue-${tickets}.git`);
    const dir = clone(bench, origin, `queue-${tickets}`);
    const env = { AGENTQ_STATE: join(bench.work, `state-${tickets}`) };
    return { tickets, landed, origin, dir, env, url: origin };
  });
  console.log(`-- by files; ${SIZES.join(", ")} tickets`);
  await measureCommands(bench, sides, bench.rounds);
  await measureFresh(bench, sides);
  const server = await serveGit(bench.work, { env: { GIT_CONFIG_GLOBAL: "/dev/null" } });
  try {
    for (const side of sides) {
      git(bench, side.origin, "config", "http.receivepack", "true");
      side.url = `${server.url}/queue-${side.tickets}.git`;
      git(bench, side.dir, "remote", "set-url", "origin", side.url);
    }
    console.log("-- over http");
    await measureCommands(bench, sides, Math.max(3, bench.rounds >> 1));
    await measureFresh(bench, sides);
  } finally {
    await server.close();
  }
}

function run(bench: Bench, side: Side, dir: string, args: readonly string[], state = side.env) {
  return take(bench, dir, agentq, [...args, "--json"], { env: state });
}

async function measureCommands(bench: Bench, sides: readonly Side[], rounds: number) {
  const commands: [string, (side: Side) => readonly string[]][] = [
    ["status --limit 5", () => ["status", "--limit", "5"]],
    ["status", () => ["status"]],
    ["show 2", () => ["show", "2"]],
    ["wait 2", () => ["wait", "2"]],
    ["submit --no-wait", () => ["submit", "--no-wait"]],
    ["land --max 1", () => ["land", "--max", "1"]],
  ];
  for (const [name, argsOf] of commands) {
    const found = await inTurns(
      rounds,
      sides.map((side) => async () => {
        if (name.startsWith("submit")) {
          git(bench, side.dir, "commit", "-q", "--allow-empty", "-m", "one more");
        }
        return (await run(bench, side, side.dir, argsOf(side))).ms;
      }),
    );
    report(name, found);
  }
}

/** Each command once in a clone made for it, by a machine that has never seen the queue. */
async function measureFresh(bench: Bench, sides: readonly Side[]): Promise<void> {
  const commands = [["status", "--limit", "5"], ["show", "2"], ["submit", "--no-wait"], [
    "land",
    "--max",
    "1",
  ]];
  const rounds = 3;
  let made = 0;
  for (const args of commands) {
    const found = await inTurns(
      rounds,
      sides.map((side) => async () => {
        const name = `fresh-${++made}-${side.tickets}-${process.pid}`;
        const dir = clone(bench, side.origin, name);
        git(bench, dir, "remote", "set-url", "origin", side.url);
        git(bench, dir, "commit", "-q", "--allow-empty", "-m", name);
        const state = { AGENTQ_STATE: join(bench.work, `state-${name}`) };
        return (await run(bench, side, dir, args, state)).ms;
      }),
    );
    report(`fresh clone: ${args.join(" ")}`, found);
  }
}

function report(name: string, found: readonly number[][]): void {
  const [few, ...more] = found;
  const detail = found.map(ms).join(", ");
  const worst = Math.max(...more.map((times) => ratioOf(times, few!)));
  if (name === "status") {
    tell(name, `${detail} (5, 100 and 100 tickets are listed)`);
    say(`${name}, 100,000 ÷ 1,000`, "", ratioOf(found[2]!, found[1]!), LIMIT);
  } else say(name, detail, worst, LIMIT);
}
