/**
 * The same commands with 10, 1,000 and 100,000 tickets in the queue: in a clone that has worked with it
 * and in fresh ones, by files and over http. The fastest runs are compared.
 */
import { basename, join } from "node:path";
import { longQueue } from "../fixtures/long-queue.ts";
import { serveGit } from "../../tests/git/transport-http/server.ts";
import {
  agentq,
  type Bench,
  clone,
  fastest,
  git,
  inTurns,
  mirror,
  say,
  take,
  tell,
  type Took,
} from "./measure.ts";

const SIZES = [10, 1000, 100_000];
const LIMIT = 1.3;
let made = 0;
/** How many requests the server has had, and the bytes of its answers; 0 where there is none. */
let served = () => ({ requests: 0, bytes: 0 });

/** One queue, the clone that works with it, and its own state directory. */
interface Side {
  readonly tickets: number;
  readonly landed: number;
  readonly origin: string;
  readonly dir: string;
  readonly env: Record<string, string>;
  url: string;
}

/** By files half of the tickets wait; over http a hundred, since git's own server walks them all. */
export async function measureQueues(bench: Bench): Promise<void> {
  console.log(`-- by files; ${SIZES.join(", ")} tickets, half of them waiting`);
  const local = sidesOf(bench, "files", (tickets) => tickets / 2);
  await measureCommands(bench, local, bench.rounds);
  await measureFresh(bench, local);

  console.log("-- over http; 100 of them waiting");
  const server = await serveGit(bench.work, { env: { GIT_CONFIG_GLOBAL: "/dev/null" } });
  try {
    served = () => ({
      requests: server.log.length,
      bytes: server.log.reduce((sum, { answered }) => sum + answered, 0),
    });
    const remote = sidesOf(bench, "http", (tickets) => Math.min(100, tickets / 2));
    for (const side of remote) {
      git(bench, side.origin, "config", "http.receivepack", "true");
      // As the large hosts do.
      git(bench, side.origin, "config", "uploadpack.allowFilter", "true");
      side.url = `${server.url}/${basename(side.origin)}`;
      git(bench, side.dir, "remote", "set-url", "origin", side.url);
    }
    const rounds = Math.max(3, bench.rounds >> 1);
    await measureCommands(bench, remote, rounds);
    await measureFresh(bench, remote);
  } finally {
    served = () => ({ requests: 0, bytes: 0 });
    await server.close();
  }
}

function sidesOf(bench: Bench, how: string, waiting: (tickets: number) => number): Side[] {
  return SIZES.map((tickets) => {
    const { dir: fixture, landed } = longQueue(tickets, waiting(tickets));
    const origin = mirror(bench, fixture, `queue-${how}-${tickets}.git`);
    const dir = clone(bench, origin, `queue-${how}-${tickets}`);
    const env = { AGENTQ_STATE: join(bench.work, `state-${how}-${tickets}`) };
    return { tickets, landed, origin, dir, env, url: origin };
  });
}

interface Run extends Took {
  readonly requests: number;
  /** Received. */
  readonly bytes: number;
}

async function run(
  bench: Bench,
  side: Side,
  dir: string,
  args: readonly string[],
  state = side.env,
): Promise<Run> {
  const before = served();
  const took = await take(bench, dir, agentq, [...args, "--json"], state);
  const { requests, bytes } = served();
  return { ...took, requests: requests - before.requests, bytes: bytes - before.bytes };
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
        return await run(bench, side, side.dir, argsOf(side));
      }),
    );
    report(name, found);
  }
}

/** Each command once in a clone made for it, by a machine that has never seen the queue. */
async function measureFresh(bench: Bench, sides: readonly Side[]): Promise<void> {
  const commands = [["status", "--limit", "5"], ["show", "2"], ["wait", "2"], [
    "submit",
    "--no-wait",
  ], [
    "land",
    "--max",
    "1",
  ]];
  const rounds = Math.max(5, bench.rounds);
  for (const args of commands) {
    const found = await inTurns(
      rounds,
      sides.map((side) => async () => {
        const name = `fresh-${++made}-${side.tickets}`;
        const dir = clone(bench, side.origin, name);
        git(bench, dir, "remote", "set-url", "origin", side.url);
        git(bench, dir, "commit", "-q", "--allow-empty", "-m", name);
        const state = { AGENTQ_STATE: join(bench.work, `state-${name}`) };
        return await run(bench, side, dir, args, state);
      }),
    );
    report(`fresh clone: ${args.join(" ")}`, found);
  }
}

function report(name: string, found: readonly Run[][]): void {
  const [few, some, many] = found.map((runs) => fastest(runs.map((run) => run.ms))) as [
    number,
    number,
    number,
  ];
  const shown = (of: (run: Run) => number) =>
    found.map((runs) => fastest(runs.map(of)).toFixed(0)).join(", ");
  const asked = served().requests > 0
    ? `; ${shown((run) => run.requests)} requests, ${shown((run) => run.bytes / 1000)} KB`
    : "";
  const detail = `${shown((run) => run.ms)} ms; cpu ${shown((run) => run.cpu)} ms${asked}`;
  if (name === "status") {
    tell(name, `${detail} (5, 100 and 100 tickets are listed)`);
    return say("status, the last two", "", many / some, LIMIT);
  }
  say(name, detail, Math.max(some, many) / few, LIMIT);
}
