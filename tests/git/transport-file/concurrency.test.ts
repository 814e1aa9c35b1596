/** Many processes on one origin: ours, real git's pushes, gc and pack-refs; and ours being killed. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { commit, git, gitEnv, makeRepo, tempDir, tryGit } from "../../helpers/git.ts";

const script = fileURLToPath(new URL("./append.ts", import.meta.url));
const runtime = "Deno" in globalThis ? ["run", "-A", "--no-check", script] : [script];
const REF = "refs/weave/main/queue";
const TWIN = "refs/twin/main/queue";
/** A longer run: AGENTQ_SOAK=10 multiplies what is done. */
const SOAK = Number(process.env.AGENTQ_SOAK ?? 1);

function startAppender(bare: string, count: number, name: string): {
  child: ChildProcess;
  won: string[];
  done: Promise<{ code: number | null; stderr: string }>;
} {
  const clone = makeRepo();
  const child = spawn(process.execPath, [...runtime, bare, clone, REF, String(count), name], {
    env: { ...process.env, ...gitEnv(), HOME: process.env.HOME ?? "/root" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const won: string[] = [];
  let stderr = "";
  let rest = "";
  child.stdout.on("data", (chunk) => {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop()!;
    won.push(...lines);
  });
  child.stderr.on("data", (chunk) => stderr += chunk);
  const done = new Promise<{ code: number | null; stderr: string }>((resolve) =>
    child.on("close", (code) => resolve({ code, stderr }))
  );
  return { child, won, done };
}

const chain = (bare: string, ref: string) =>
  tryGit(bare, ["rev-list", "--first-parent", ref, "--"]).stdout.split("\n").filter(Boolean);

function bareOrigin(): string {
  const work = makeRepo();
  commit(work, "first", { "a.txt": "a\n" });
  const bare = tempDir();
  git(bare, "clone", "-q", "--bare", work, ".");
  return bare;
}

function assertSound(bare: string): void {
  const fsck = tryGit(bare, ["fsck", "--full", "--strict"]);
  assert.equal(fsck.status, 0, fsck.stderr);
}

test("processes of ours append to one chain: every commit that won is in it, once", {
  timeout: 600_000,
}, async () => {
  const bare = bareOrigin();
  const writers = [0, 1, 2, 3].map((i) => startAppender(bare, 15 * SOAK, `writer ${i}`));
  for (const { done } of writers) {
    const { code, stderr } = await done;
    assert.equal(code, 0, stderr);
  }
  const won = writers.flatMap((writer) => writer.won);
  const found = chain(bare, REF);
  assert.equal(found.length, 60 * SOAK);
  assert.deepEqual([...won].sort(), [...found].sort());
  assert.deepEqual(chain(bare, TWIN), found);
  assertSound(bare);
  const packs = readdirSync(join(bare, "objects/pack")).filter((name) => name.endsWith(".pack"));
  assert.ok(packs.length < 40, `${packs.length} packs`);
});

test("real git pushing, packing and collecting meanwhile: neither corrupts the other", {
  timeout: 600_000,
}, async () => {
  const bare = bareOrigin();
  git(bare, "config", "core.filesRefLockTimeout", "2000");
  const writers = [0, 1].map((i) => startAppender(bare, 20 * SOAK, `writer ${i}`));
  const clone = tempDir();
  git(clone, "clone", "-q", bare, ".");
  let running = 2;
  for (const { done } of writers) done.then(() => running--);
  const pushed: string[] = [];
  for (let round = 0; running > 0; round++) {
    // Git appends to the same chain, leased on what it read: the same compare-and-swap.
    const seen = new Promise<void>((resolve) => setTimeout(resolve, 5));
    await seen;
    const head = tryGit(clone, ["ls-remote", "origin", REF]).stdout.slice(0, 40);
    if (head !== "") {
      tryGit(clone, ["fetch", "-q", "origin", REF]);
      const tree = git(clone, "hash-object", "-t", "tree", "-w", "/dev/null");
      const next = tryGit(clone, ["commit-tree", tree, "-p", head, "-m", `git ${round}`]).stdout
        .trim();
      const push = tryGit(clone, [
        "push",
        "-q",
        "--atomic",
        `--force-with-lease=${REF}:${head}`,
        `--force-with-lease=${TWIN}:${head}`,
        "origin",
        `${next}:${REF}`,
        `${next}:${TWIN}`,
      ]);
      if (push.status === 0) pushed.push(next);
    }
    if (round % 3 === 0) tryGit(bare, ["pack-refs", "--all", "--prune"]);
    if (round % 5 === 4) tryGit(bare, ["-c", "gc.auto=1", "gc", "-q"]);
  }
  for (const { done } of writers) {
    const { code, stderr } = await done;
    assert.equal(code, 0, stderr);
  }
  const found = chain(bare, REF);
  const expected = [...writers.flatMap(({ won }) => won), ...pushed];
  assert.deepEqual([...found].sort(), expected.sort());
  assert.deepEqual(chain(bare, TWIN), found);
  assertSound(bare);
});

test("processes killed at any moment wedge nobody and lose nothing that was won", {
  timeout: 600_000,
}, async () => {
  const bare = bareOrigin();
  const won: string[] = [];
  for (let round = 0; round < 12 * SOAK; round++) {
    const { child, won: reported, done } = startAppender(bare, 1000, `victim ${round}`);
    // Let it get going, then kill it wherever it is.
    await new Promise<void>((resolve) => child.stdout!.once("data", () => resolve()));
    await new Promise((resolve) => setTimeout(resolve, (round * 7) % 40));
    child.kill("SIGKILL");
    await done;
    won.push(...reported);
    const heads = [REF, TWIN].map((ref) =>
      tryGit(bare, ["rev-parse", "--verify", "-q", ref]).stdout.trim()
    );
    if (heads[0] !== heads[1]) {
      // Between two renames: the first named has moved by exactly one commit.
      assert.equal(git(bare, "rev-parse", `${REF}^`), heads[1]);
      await rollForward(bare, heads[0]!, heads[1]!);
    }
  }
  const after = startAppender(bare, 3, "survivor");
  const { code, stderr } = await after.done;
  assert.equal(code, 0, stderr);
  won.push(...after.won);
  const found = new Set(chain(bare, REF));
  for (const oid of won) assert.ok(found.has(oid), `${oid} was won and is gone`);
  assertSound(bare);
  const locks = readdirSync(join(bare, "refs"), { recursive: true }).map(String)
    .filter((name) => name.endsWith(".lock") && !name.includes(".agentq"));
  assert.deepEqual(locks, []);
});

/** What the next lander does with a half state: the same primitive, on the ref that lags. */
async function rollForward(bare: string, head: string, lagging: string): Promise<void> {
  const { openOrigin } = await import("../../../src/git/origin.ts");
  const origin = await openOrigin(bare);
  const outcome = await origin.push([{ ref: TWIN, old: lagging, new: head }], origin.objects()!);
  assert.deepEqual(outcome, { status: "won" });
  origin.close();
}
