/**
 * What `status --json` keeps of its last answer: whatever changes, with it and without it the same is said.
 * Each change is made once what was said before is kept.
 */
import assert from "node:assert/strict";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { commit, git } from "../helpers/git.ts";
import { type Agent, agentCommit, makeAgent, type Run, run } from "./harness/agent.ts";
import { makeOrigin, pushOutside, type TestOrigin } from "./harness/origin.ts";
import { scenario } from "./harness/scenario.ts";

interface World {
  readonly origin: TestOrigin;
  readonly agent: Agent;
  readonly other: Agent;
  /** Where status is asked. */
  readonly directory: string;
  round: number;
}

type Change = (world: World) => unknown;

/** What comes before may keep it from being accepted; then that is what there is to tell. */
async function submitted(agent: Agent, round: number): Promise<void> {
  agentCommit(agent, { [`${agent.name}-${round}`]: `${round}\n` });
  await run(agent, ["submit", "--no-wait"]);
}

const home = ({ agent }: World) => join(agent.env.HOME!, ".gitconfig");
const gitDir = ({ agent }: World) => join(agent.dir, ".git");

function setMode({ agent }: World, mode: number): void {
  const state = join(agent.state, "submissions", ".fs-safe-queue-v2", "state.json");
  if (existsSync(state)) chmodSync(state, mode);
}

const changes: Record<string, Change> = {
  "nothing": () => {},
  "another agent submits": ({ other, round }) => submitted(other, round),
  "this agent submits": ({ agent, round }) => submitted(agent, round),
  "another agent lands": ({ other }) => run(other, ["land"]),
  "this agent lands": ({ agent }) => run(agent, ["land"]),
  "the queue is paused": ({ other, round }) => run(other, ["pause", "--reason", `r${round}`]),
  "the queue is resumed": ({ other }) => run(other, ["resume"]),
  "somebody pushes": ({ origin, round }) => pushOutside(origin, { [`outside-${round}`]: "o\n" }),
  "the origin's refs are packed": ({ origin }) => git(origin.dir, "pack-refs", "--all"),
  "the origin hides the queue": ({ origin }) =>
    git(origin.dir, "config", "transfer.hideRefs", "refs/weave"),
  "the origin hides it no more": ({ origin }) =>
    git(origin.dir, "config", "transfer.hideRefs", "refs/nothing"),
  "the origin's HEAD names another branch": ({ origin }) =>
    git(origin.dir, "symbolic-ref", "HEAD", "refs/heads/other"),
  "the origin's HEAD names main": ({ origin }) =>
    git(origin.dir, "symbolic-ref", "HEAD", "refs/heads/main"),
  "a branch appears beside": ({ origin, round }) =>
    git(origin.dir, "branch", `main-${round}`, "main"),
  "a branch stands where the queue's refs are": ({ origin }) =>
    git(origin.dir, "update-ref", "refs/weave/main/queue-x", "main"),
  "the clone is set to another branch": ({ agent }) =>
    git(agent.dir, "config", "agentq.branch", "other"),
  "the clone lists one ticket at most": ({ agent }) =>
    git(agent.dir, "config", "agentq.limit", "1"),
  "the clone lists them all": ({ agent }) => git(agent.dir, "config", "agentq.limit", "100"),
  "the clone is set to no branch": ({ agent }) => git(agent.dir, "config", "agentq.branch", "main"),
  "the clone believes in another HEAD": ({ agent }) =>
    git(agent.dir, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/other"),
  "the remote has another url": ({ agent, origin }) =>
    git(agent.dir, "config", "remote.origin.url", `${dirname(origin.dir)}/link`),
  "the remote has its url": ({ agent, origin }) =>
    git(agent.dir, "config", "remote.origin.url", origin.dir),
  "the user is set to list less": (world) => writeFileSync(home(world), "[agentq]\n\tlimit = 1\n"),
  "the user has no settings": (world) => rmSync(home(world), { force: true }),
  "settings include others": (world) => {
    writeFileSync(join(gitDir(world), "more"), "[agentq]\n\tbranch = main\n");
    git(world.agent.dir, "config", "include.path", "more");
  },
  "what is included changes": (world) =>
    writeFileSync(join(gitDir(world), "more"), `[agentq]\n\tlimit = ${world.round}\n`),
  "settings include nothing": ({ agent }) => git(agent.dir, "config", "include.path", "/dev/null"),
  "the origin is gone": ({ origin }) => {
    if (existsSync(origin.dir)) renameSync(origin.dir, `${origin.dir}-away`);
  },
  "the origin is back": ({ origin }) => {
    if (!existsSync(origin.dir)) renameSync(`${origin.dir}-away`, origin.dir);
  },
  "the store is open to others": (world) => setMode(world, 0o644),
  "the store is closed again": (world) => setMode(world, 0o600),
  "there are no submissions": ({ agent }) =>
    rmSync(join(agent.state, "submissions"), { recursive: true, force: true }),
  "the clone's HEAD is gone": (world) => {
    if (existsSync(join(gitDir(world), "HEAD"))) {
      renameSync(join(gitDir(world), "HEAD"), join(gitDir(world), "head"));
    }
  },
  "the clone's HEAD is back": (world) => {
    if (existsSync(join(gitDir(world), "head"))) {
      renameSync(join(gitDir(world), "head"), join(gitDir(world), "HEAD"));
    }
  },
  "another repository is nearer": ({ directory }) => {
    if (!existsSync(join(directory, ".git"))) git(directory, "init", "-q");
  },
  "it is no more": ({ agent, directory }) => {
    if (directory !== agent.dir) rmSync(join(directory, ".git"), { recursive: true, force: true });
  },
};

/** Both ends of a change that leaves nothing else to look at. */
const MENDS: Record<string, string> = {
  "the origin is gone": "the origin is back",
  "the clone's HEAD is gone": "the clone's HEAD is back",
  "another repository is nearer": "it is no more",
};

const asked = ({ agent, directory }: World, args: readonly string[] = []) =>
  run(agent, ["status", "--json", ...args], { cwd: directory });

const said = ({ status, stdout, stderr }: Run) => ({ status, stdout, stderr });

/** What is said without anything kept. */
async function askedAnew(world: World): Promise<Run> {
  const answers = join(world.agent.state, "answers");
  const aside = `${answers}-aside`;
  if (existsSync(answers)) renameSync(answers, aside);
  try {
    return await asked(world);
  } finally {
    rmSync(answers, { recursive: true, force: true });
    if (existsSync(aside)) renameSync(aside, answers);
  }
}

function makeWorld(where: "clone" | "below" | "worktree"): World {
  const origin = makeOrigin();
  git(origin.dir, "branch", "other", "main");
  git(dirname(origin.dir), "clone", "-q", "--bare", origin.dir, "link");
  const agent = makeAgent(origin);
  const other = makeAgent(origin);
  let directory = agent.dir;
  if (where === "below") {
    directory = join(agent.dir, "a", "b");
    mkdirSync(directory, { recursive: true });
  } else if (where === "worktree") {
    directory = join(dirname(agent.dir), "tree");
    git(agent.dir, "worktree", "add", "-q", directory);
  }
  return { origin, agent, other, directory, round: 0 };
}

for (const where of ["clone", "below", "worktree"] as const) {
  scenario(`an answer is kept only as long as it would be given (asked in: ${where})`, async () => {
    const order = fc.sample(
      fc.shuffledSubarray(Object.keys(changes), { minLength: 30 }),
      1,
    )[0]!;
    const world = makeWorld(where);
    await submitted(world.agent, 1000);
    for (const name of order.filter((name) => !Object.values(MENDS).includes(name))) {
      if (where !== "below" && name === "another repository is nearer") continue;
      for (const step of [name, MENDS[name]]) {
        if (step === undefined) continue;
        // Kept as it was before the change.
        await asked(world);
        await asked(world);
        world.round++;
        await changes[step]!(world);
        const kept = said(await asked(world));
        assert.deepEqual(kept, said(await askedAnew(world)), `${step}, of ${order.join(", ")}`);
      }
    }
  });
}

scenario("while nothing changes nothing else is read", async () => {
  const world = makeWorld("clone");
  const { origin, agent, other } = world;
  await submitted(other, 1);
  await submitted(agent, 2);
  await asked(world);
  const before = said(await asked(world));
  assert.equal(JSON.parse(before.stdout).tickets.length, 2);
  // Without the objects there is nothing to make an answer from.
  renameSync(join(origin.dir, "objects"), join(origin.dir, "objects-away"));
  mkdirSync(join(origin.dir, "objects"));
  rmSync(join(agent.state, "entries"), { recursive: true });
  assert.deepEqual(said(await asked(world)), before);
  const anew = await askedAnew(world);
  assert.equal(anew.status, 2, anew.stdout);
  // What is asked otherwise is answered anew.
  assert.equal((await asked(world, ["--limit", "1"])).status, 2);
  assert.equal((await run(agent, ["--json", "status"])).status, 2);
  const elsewhere = { cwd: agent.dir, env: { AGENTQ_LIMIT: "1" } };
  assert.equal((await run(agent, ["status", "--json"], elsewhere)).status, 2);
});

scenario("what is kept is believed only as it was written, by its own user", async () => {
  const world = makeWorld("clone");
  const { agent } = world;
  await submitted(agent, 1);
  await asked(world);
  await asked(world);
  const before = said(await asked(world));
  const [name] = readdirSync(join(agent.state, "answers"));
  const file = join(agent.state, "answers", name!);
  const forge = (text: string, mode = 0o600) => {
    writeFileSync(file, text);
    chmodSync(file, mode);
  };
  for (const text of ["", "\n", "0123456789abcdef\n{}", "\0".repeat(4096)]) {
    forge(text);
    assert.deepEqual(said(await asked(world)), before);
  }
  await asked(world);
  chmodSync(file, 0o666);
  commit(agent.dir, "more", { "more.txt": "more\n" });
  assert.deepEqual(said(await asked(world)), before);
});

scenario("no secret that an answer rests on is kept", async () => {
  const world = makeWorld("clone");
  const { agent } = world;
  await submitted(agent, 1);
  git(agent.dir, "remote", "add", "other", "https://user:SECRET-url@example.com/x.git");
  git(agent.dir, "config", "http.extraHeader", "Authorization: Bearer SECRET-header");
  const secrets = {
    AGENTQ_TOKEN: "SECRET-token",
    GIT_CONFIG_COUNT: "1",
    GIT_CONFIG_KEY_0: "http.proxy",
    GIT_CONFIG_VALUE_0: "http://u:SECRET-proxy@127.0.0.1:1",
  };
  for (let i = 0; i < 3; i++) {
    assert.equal((await run(agent, ["status", "--json"], { env: secrets })).status, 0);
  }
  const names = readdirSync(join(agent.state, "answers"));
  assert.notEqual(names.length, 0);
  for (const name of names) {
    assert.doesNotMatch(readFileSync(join(agent.state, "answers", name), "latin1"), /SECRET/);
  }
});
