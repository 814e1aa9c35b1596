/** Nobody reads standard error any more, or standard output: a pager, a terminal under Ctrl-S, a log collector that hangs. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { closeSync, constants, existsSync, openSync, readFileSync, readSync } from "node:fs";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { tempDir } from "../helpers/git.ts";
import { agentCommit, makeAgent, run, runJson, start } from "./harness/agent.ts";
import { readChain, results } from "./harness/chains.ts";
import { makeOrigin } from "./harness/origin.ts";
import { scenario, sleep, until } from "./harness/scenario.ts";

/** More than any pipe or socket holds, once it is escaped. */
const LOUD = "head -c 4000000 /dev/zero >&2";

interface Unread {
  /** Has a program's standard error (or output) go to somebody who doesn't read. */
  readonly wrapper: string[];
  /** Reads what waits there; of a pipe alone. */
  read(): string;
  close(): void;
}

function unreadPipe(stream: 1 | 2 = 2): Unread {
  const path = join(tempDir(), "stderr");
  assert.equal(spawnSync("mkfifo", [path]).status, 0);
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const read = () => {
    let text = "";
    const bytes = new Uint8Array(65536);
    for (;;) {
      try {
        const count = readSync(fd, bytes);
        if (count === 0) return text;
        text += new TextDecoder("latin1").decode(bytes.subarray(0, count));
      } catch (error) {
        if (/EAGAIN|WouldBlock|temporarily/i.test(String(error))) return text;
        throw error;
      }
    }
  };
  return {
    wrapper: ["sh", "-c", `exec "$@" ${stream}>${path}`, "sh"],
    read,
    close: () => closeSync(fd),
  };
}

async function unreadSocket(stream: 1 | 2 = 2): Promise<Unread> {
  const sockets: Socket[] = [];
  const server = createServer({ pauseOnConnect: true }, (socket) => {
    socket.pause();
    socket.on("error", () => {});
    sockets.push(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    // A shell that knows this is needed.
    wrapper: ["/bin/bash", "-c", `exec "$@" ${stream}>/dev/tcp/127.0.0.1/${port}`, "sh"],
    read: () => "",
    close: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

const KINDS: readonly (readonly [string, (stream?: 1 | 2) => Unread | Promise<Unread>])[] = [
  ["a pipe", unreadPipe],
  ["a socket", unreadSocket],
];

for (const [kind, open] of KINDS) {
  scenario(`a worker keeps its leases and hears signals though nobody reads ${kind}`, async () => {
    const unread = await open();
    const agent = makeAgent(makeOrigin());
    await run(agent, ["queue", "create", "jobs"]);
    await run(agent, ["queue", "enqueue", "jobs", "x", "--id", "loud"]);
    await run(agent, ["queue", "enqueue", "jobs", "x", "--id", "quiet"]);
    const began = join(tempDir(), "began");
    const program =
      `echo $AGENTQ_MESSAGE_ID >>${began}; [ $AGENTQ_MESSAGE_ID = quiet ] || ${LOUD}; ` +
      `echo said >>${began}; sleep 1000`;
    const worker = start(agent, [
      ...["queue", "work", "jobs", "--lease", "3", "--concurrency", "2", "--grace", "0"],
      ...["--", "sh", "-c", program],
    ], { wrapper: unread.wrapper });
    const lines = () => existsSync(began) ? readFileSync(began, "utf8").split("\n").length - 1 : 0;
    // All that it says is taken from the program, so that it goes on.
    await until("both programs to have spoken", () => lines() === 4);
    await sleep(6000);
    const { recovered } = await runJson(agent, ["queue", "recover", "jobs"]);
    assert.equal(recovered, 0, "leases ran out");
    worker.kill("SIGTERM");
    assert.equal((await worker.done).status, 143);
    const { pending, processing } = await runJson(agent, ["queue", "status", "jobs"]);
    assert.deepEqual({ pending, processing }, { pending: 2, processing: 0 });
    unread.close();
  });

  scenario(
    `a program waits where nobody reads its output in ${kind}, and its worker doesn't`,
    async () => {
      const unread = await open(1);
      const agent = makeAgent(makeOrigin());
      await run(agent, ["queue", "create", "jobs"]);
      await run(agent, ["queue", "enqueue", "jobs", "x", "--id", "loud"]);
      await run(agent, ["queue", "enqueue", "jobs", "x", "--id", "quiet"]);
      const ended = join(tempDir(), "ended");
      const program = "[ $AGENTQ_MESSAGE_ID = quiet ] || head -c 40000000 /dev/zero; " +
        `echo $AGENTQ_MESSAGE_ID >>${ended}`;
      const worker = start(agent, [
        ...["queue", "work", "jobs", "--lease", "3", "--concurrency", "2", "--grace", "0"],
        ...["--", "sh", "-c", program],
      ], { wrapper: unread.wrapper });
      await until("the other program to have ended", () => existsSync(ended));
      await sleep(6000);
      const { recovered } = await runJson(agent, ["queue", "recover", "jobs"]);
      assert.equal(recovered, 0, "leases ran out");
      worker.kill("SIGTERM");
      const { status, stderr } = await worker.done;
      assert.equal(status, 143);
      assert.match(stderr, /\d+ bytes of the programs' output are lost: nobody read them/);
      assert.equal(readFileSync(ended, "utf8"), "quiet\n");
      const { pending, processing } = await runJson(agent, ["queue", "status", "jobs"]);
      assert.deepEqual({ pending, processing }, { pending: 1, processing: 0 });
      unread.close();
    },
  );

  scenario(`--job-timeout ends a program though nobody reads ${kind}`, async () => {
    const unread = await open();
    const agent = makeAgent(makeOrigin());
    await run(agent, ["queue", "create", "jobs"]);
    await run(agent, ["queue", "enqueue", "jobs", "x"]);
    const limits = ["--job-timeout", "2", "--max-attempts", "1", "--until-empty"];
    const { status } = await run(
      agent,
      ["queue", "work", "jobs", ...limits, "--", "sh", "-c", `${LOUD}; sleep 1000`],
      { wrapper: unread.wrapper },
    );
    assert.equal(status, 0);
    const failed = await run(agent, ["queue", "failed", "ls", "jobs"]);
    assert.match(failed.stdout, /\tkilled after 2 s/);
    unread.close();
  });

  scenario(`a lander keeps its lock though nobody reads ${kind}`, async () => {
    const unread = await open();
    const origin = makeOrigin();
    const [lander, other] = [makeAgent(origin), makeAgent(origin)];
    agentCommit(lander, { "a.txt": "a" });
    const ran = join(tempDir(), "ran");
    const verify = `echo run >>${ran}; ${LOUD}; echo said >>${ran}; sleep 8`;
    const submit = start(lander, ["submit", "--verify-cmd", verify, "--json"], {
      wrapper: unread.wrapper,
    });
    await until("the check to have spoken", () => {
      return existsSync(ran) && readFileSync(ran, "utf8").includes("said");
    });
    // Takes the lock over as soon as it isn't renewed.
    await run(other, ["land"]);
    const { status, json } = await submit.done;
    assert.deepEqual([status, json.outcome], [0, "landed"]);
    assert.equal(readFileSync(ran, "utf8"), "run\nsaid\n");
    assert.equal(results(origin).length, 1);
    const holders = readChain(origin, "lock").map(({ message }) => message.holder);
    assert.equal(new Set(holders.filter((holder) => holder)).size, 1, String(holders));
    unread.close();
  });
}

scenario("whoever reads on finds the beginning, what is missing, and how it ended", async () => {
  const unread = unreadPipe();
  const agent = makeAgent(makeOrigin());
  await run(agent, ["queue", "create", "jobs"]);
  await run(agent, ["queue", "enqueue", "jobs", "x"]);
  const go = join(tempDir(), "go");
  const program =
    `echo begins >&2; ${LOUD}; touch ${go}.said; until [ -e ${go} ]; do sleep 0.1; done`;
  const worker = start(
    agent,
    ["queue", "work", "jobs", "--until-empty", "--", "sh", "-c", program],
    { wrapper: unread.wrapper },
  );
  await until("the program to have spoken", () => existsSync(`${go}.said`));
  let text = unread.read();
  assert.match(text, /^begins\n/);
  await until("the rest", () => /bytes are missing here/.test(text += unread.read()));
  spawnSync("touch", [go]);
  const { status } = await worker.done;
  assert.equal(status, 0);
  text += unread.read();
  assert.match(text, /\nagentq: \d+ bytes are missing here: nobody read them in time\n/);
  assert.match(text, /\njobs: 1 done, 0 tried again, 0 failed\n$/);
  unread.close();
});

scenario("an error is heard by a reader who was behind", async () => {
  const unread = unreadPipe();
  const agent = makeAgent(makeOrigin());
  const filled = ["sh", "-c", `head -c 65536 /dev/zero >&2; exec "$@"`, "sh"];
  const asking = start(agent, ["queue", "size", "none"], {
    wrapper: [...unread.wrapper, ...filled],
  });
  let text = "";
  await until("the error", () => /hint: /.test(text += unread.read()));
  assert.equal((await asking.done).status, 2);
  assert.match(text, /^\0{65536}agentq: [^\n]+\nhint: [^\n]+\n$/);
  unread.close();
});

scenario("a program that has ended is done, though nobody reads what it said", async () => {
  const unread = unreadPipe(1);
  const agent = makeAgent(makeOrigin());
  await run(agent, ["queue", "create", "jobs"]);
  for (const id of ["a", "b", "c"]) await run(agent, ["queue", "enqueue", "jobs", "x", "--id", id]);
  const began = join(tempDir(), "began");
  // More than one pipe holds, and less than the program's and the worker's.
  const worker = start(agent, [
    ...["queue", "work", "jobs", "--job-timeout", "30", "--grace", "60", "--"],
    ...["sh", "-c", `echo $AGENTQ_MESSAGE_ID >>${began}; head -c 100000 /dev/zero`],
  ], { wrapper: unread.wrapper });
  const counts = async () => {
    const { pending, processing } = await runJson(agent, ["queue", "status", "jobs"]);
    return `${pending} and ${processing}`;
  };
  await until("the first to be acknowledged", async () => (await counts()) === "1 and 1");
  worker.kill("SIGTERM");
  assert.equal((await worker.done).status, 143);
  assert.equal(await counts(), "2 and 0");
  assert.equal(readFileSync(began, "utf8"), "a\n");
  unread.close();
});

scenario(
  "a worker's reader that is slow gets all that its programs said, and in order",
  async () => {
    const unread = unreadPipe(1);
    const agent = makeAgent(makeOrigin());
    await run(agent, ["queue", "create", "jobs"]);
    for (const id of ["a", "b", "c"]) {
      await run(agent, [
        "queue",
        "enqueue",
        "jobs",
        "x",
        "--id",
        id,
      ]);
    }
    const worker = start(agent, [
      ...["queue", "work", "jobs", "--lease", "3", "--until-empty", "--"],
      ...[
        "sh",
        "-c",
        'i=0; while [ $i -lt 50000 ]; do echo "$AGENTQ_MESSAGE_ID$i"; i=$((i+1)); done',
      ],
    ], { wrapper: unread.wrapper });
    await sleep(5000);
    let text = "";
    let ended = false;
    worker.done.then(() => ended = true);
    while (!ended) {
      text += unread.read();
      await sleep(10);
    }
    text += unread.read();
    const { status, stderr } = await worker.done;
    assert.equal(status, 0, stderr);
    const lines = ["a", "b", "c"].flatMap((id) =>
      Array.from({ length: 50_000 }, (_, i) => `${id}${i}`)
    );
    assert.ok(text === `${lines.join("\n")}\n`, `${text.length} characters; ${stderr}`);
    unread.close();
  },
);
