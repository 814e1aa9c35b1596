/** Where a queue's answers go and its messages come from: closed, full, gone, a directory. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../helpers/git.ts";
import { makeAgent, run, runJson } from "./harness/agent.ts";
import { makeOrigin } from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";

const through = (redirection: string) => ["sh", "-c", `exec "$@" ${redirection}`, "sh"];

async function queueOf(...texts: string[]) {
  const agent = makeAgent(makeOrigin());
  const queue = (args: string[], wrapper?: string[]) =>
    run(agent, ["queue", ...args], wrapper === undefined ? {} : { wrapper });
  await queue(["create", "jobs"]);
  for (const text of texts) await queue(["enqueue", "jobs", text, "--id", text]);
  const counts = async () => {
    const { pending, processing } = await runJson(agent, ["queue", "status", "jobs"]);
    return { pending, processing };
  };
  return { agent, queue, counts };
}

scenario("an answer into a closed stream is no success", async () => {
  const { agent, queue } = await queueOf("a");
  for (const args of [["--version"], ["queue", "--help"], ["queue", "ls"], ["schema"]]) {
    const { status, stderr } = await run(agent, args, { wrapper: through(">&-") });
    assert.equal(status, 2, args.join(" "));
    assert.match(stderr, /standard output can't be written: it is closed/);
  }
  // One error, whatever else went wrong: standard error is where it can still be told.
  for (const redirection of [">&-", ">/dev/full"]) {
    for (
      const args of [["dequeue", "jobs"], ["size", "none"], ["size", "none", "--json"], ["ls"]]
    ) {
      const { status, stderr } = await queue(args, through(redirection));
      assert.equal(status, 2, args.join(" "));
      assert.match(stderr, /^agentq: [^\n]+\nhint: [^\n]+\n$/, `${args.join(" ")} ${redirection}`);
    }
  }
  // What was closed is told from what was meant to be thrown away.
  for (const thrown of [">/dev/null", "<&- >/dev/null", "<>/dev/null >&0"]) {
    assert.equal((await queue(["ls"], through(thrown))).status, 0, thrown);
  }
});

scenario("what nobody could be told of isn't taken, or is given back untried", async () => {
  const { queue, counts } = await queueOf("a", "b", "c");
  const gone = [
    "sh",
    "-c",
    '{ until [ -e gone ]; do sleep 0.1; done; sleep 0.5; "$@"; echo "exit $?" >&2; } | touch gone',
    "sh",
  ];
  for (const [wrapper, exit] of [[through(">&-"), 2], [through(">/dev/full"), 2], [gone, 141]]) {
    for (const args of [["dequeue", "jobs", "--count", "2"], ["fs", "read", "jobs/dequeue"]]) {
      const { status, stderr } = await queue(args, wrapper as string[]);
      if (exit === 2) assert.equal(status, 2);
      else assert.match(stderr, /exit 141/);
      assert.deepEqual(await counts(), { pending: 3, processing: 0 }, `${args}: ${wrapper}`);
    }
  }
  const taken = await queue(["dequeue", "jobs", "--receipt"]);
  const { id, attempts } = JSON.parse(taken.stdout);
  assert.deepEqual({ id, attempts }, { id: "a", attempts: 0 });
});

scenario("standard input that is closed or a directory holds no message", async () => {
  const { agent, queue, counts } = await queueOf();
  for (
    const args of [["enqueue", "jobs", "-"], ["enqueue", "jobs"], ["fs", "write", "jobs/enqueue"]]
  ) {
    const closed = await queue(args, through("<&-"));
    assert.equal(closed.status, 64, closed.stderr);
    assert.match(closed.stderr, /standard input is closed/);
    const directory = await queue(args, through("</"));
    assert.equal(directory.status, 2, directory.stderr);
    assert.match(directory.stderr, /standard input can't be read: it is a directory/);
  }
  assert.deepEqual(await counts(), { pending: 0, processing: 0 });
  assert.equal((await queue(["enqueue", "jobs", "-"], through("</dev/null"))).status, 0);
  assert.deepEqual(await counts(), { pending: 1, processing: 0 });
  for (const [redirection, status] of [["<&-", 64], ["</", 2], ["</dev/null", 0]] as const) {
    const pairs = await run(agent, ["merge-tree", "--stdin", "--json"], {
      wrapper: through(redirection),
    });
    assert.equal(pairs.status, status, pairs.stderr);
  }
});

scenario("a program's environment is what it would be without a worker in between", async () => {
  const { queue } = await queueOf("a");
  // A byte that is no text, the character that it reads as, a newline at the end.
  const odd =
    `V="$(printf "a'\\377")" W="$(printf 'b\\357\\277\\275')" X="$(printf 'c\\377\\n.')"; ` +
    `export V W X="\${X%.}"; exec "$@"`;
  const file = join(tempDir(), "out");
  const program = ["sh", "-c", `printf "%s|%s|%s" "$V" "$W" "$X" > ${file}`];
  const { stderr } = await queue(["work", "jobs", "--until-empty", "--", ...program], [
    "sh",
    "-c",
    odd,
    "sh",
  ]);
  assert.equal(readFileSync(file).toString("hex"), "6127ff7c62efbfbd7c63ff0a", stderr);
});
