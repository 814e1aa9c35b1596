/** An origin with 100,000 refs is asked for the queue's only: time, and bytes over http. */
import { writeFileSync } from "node:fs";
import net from "node:net";
import { join } from "node:path";
import { longQueue } from "../fixtures/long-queue.ts";
import { serveGit } from "../../tests/git/transport-http/server.ts";
import {
  agentq,
  type Bench,
  clone,
  git,
  inTurns,
  mirror,
  say,
  slower,
  submitBeside,
  take,
  timesOf,
} from "./measure.ts";

const REFS = 100_000;

export async function measureRefs(bench: Bench): Promise<void> {
  const few = mirror(bench, longQueue(10, 5).dir, "few-refs.git");
  const many = mirror(bench, longQueue(10, 5).dir, "many-refs.git");
  addRefs(bench, many);
  const fewClone = clone(bench, few, "few-refs", "--single-branch");
  const manyClone = clone(bench, many, "many-refs", "--single-branch", "--no-tags");
  const theirs = mirror(bench, longQueue(10, 5).dir, "many-refs-theirs.git");
  addRefs(bench, theirs);
  const theirClone = clone(bench, theirs, "many-refs-theirs", "--single-branch", "--no-tags");

  console.log(`-- an origin with ${REFS} refs beside one with three`);
  const status = async () => {
    const [more, less] = await inTurns(bench.rounds, [
      () => take(bench, manyClone, agentq, ["status", "--json"]),
      () => take(bench, fewClone, agentq, ["status", "--json"]),
    ]);
    return { times: timesOf(more!, less!), ratio: slower(more!, less!) };
  };
  const files = await status();
  say("status, by files", files.times, files.ratio, 1.5);
  await submits(bench, manyClone, theirClone, "by files");

  const server = await serveGit(bench.work);
  const wire = await countingProxy(server.port);
  try {
    const name = (dir: string) => `http://127.0.0.1:${wire.port}/${dir}`;
    for (
      const [origin, dir] of [[few, fewClone], [many, manyClone], [theirs, theirClone]] as const
    ) {
      git(bench, origin, "config", "http.receivepack", "true");
      git(bench, dir, "remote", "set-url", "origin", name(origin.slice(bench.work.length + 1)));
    }
    const http = await status();
    say("status, over http", http.times, http.ratio, 1.5);
    const bytes = async (dir: string) => {
      const before = wire.received();
      await take(bench, dir, agentq, ["status", "--json"]);
      return await wire.settled() - before;
    };
    const [received, least] = [await bytes(manyClone), await bytes(fewClone)];
    say("status, bytes received", `${received} and ${least}`, received / least, 1.1);
    await submits(bench, manyClone, theirClone, "over http");
  } finally {
    wire.close();
    await server.close();
  }
}

/** Pushing: git's protocol lists every ref to a push, which no client can ask a server not to do. */
async function submits(bench: Bench, ours: string, theirs: string, how: string): Promise<void> {
  const site = (dir: string) => ({
    dir,
    commit: () => git(bench, dir, "commit", "-q", "--allow-empty", "-m", "one more"),
  });
  await submitBeside(
    bench,
    { ours: site(ours), theirs: site(theirs) },
    Math.max(3, bench.rounds >> 1),
    `submit --no-wait ÷ the script, ${how}`,
  );
}

function addRefs(bench: Bench, dir: string): void {
  const tip = git(bench, dir, "rev-parse", "main");
  const lines = git(bench, dir, "for-each-ref", "--format=%(objectname) %(refname)").split("\n");
  for (let i = 0; i < REFS; i++) lines.push(`${tip} refs/pull/${i}/head`);
  const byName = (line: string) => line.slice(41);
  lines.sort((a, b) => (byName(a) < byName(b) ? -1 : 1));
  writeFileSync(
    join(dir, "packed-refs"),
    `# pack-refs with: peeled fully-peeled sorted \n${lines.join("\n")}\n`,
  );
}

/** Passes bytes on to a port and counts those that come back. */
async function countingProxy(to: number) {
  let count = 0;
  const sockets = new Set<net.Socket>();
  const server = net.createServer((near) => {
    const far = net.connect(to, "127.0.0.1");
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on("error", () => socket.destroy());
      socket.on("close", () => sockets.delete(socket));
    }
    near.pipe(far);
    far.on("data", (chunk) => count += chunk.length);
    far.pipe(near);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as net.AddressInfo).port,
    received: () => count,
    /** The count once what is under way has been passed on. */
    async settled() {
      await new Promise((resolve) => setTimeout(resolve, 50));
      return count;
    },
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}
