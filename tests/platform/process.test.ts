import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, test } from "node:test";
import { isAgentqError } from "../../src/errors.ts";
import { preparePipes } from "../../src/platform/pipes.ts";
import { MAX_TAIL_BYTES, runCommand } from "../../src/platform/process.ts";
import { tempDir } from "../helpers/git.ts";

const text = (bytes: Uint8Array) => Buffer.from(bytes).toString("utf8");

/** Waits until `condition` holds; the test's own timeout is the bound. */
async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 10));
}

/** True while a process with this pid runs (a zombie has ended). */
function runs(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return !/^[ZX]/.test(stat.slice(stat.lastIndexOf(")") + 2));
  } catch {
    return false;
  }
}

const pidIn = (path: string) =>
  existsSync(path) ? Number(readFileSync(path, "utf8").trim() || 0) : 0;

describe("runCommand", () => {
  test("gives exit status and interleaved output", async () => {
    const result = await runCommand("echo out; echo err >&2; exit 7", {
      cwd: tempDir(),
      timeoutMs: 60_000,
    });
    assert.equal(result.exit, 7);
    assert.equal(result.timedOut, false);
    assert.deepEqual(text(result.tail).trim().split("\n").sort(), ["err", "out"]);
  });

  test("closes standard input and the watcher's pipe, and sets the environment", async () => {
    const result = await runCommand(
      "read -r line; echo read=$?; ls /proc/self/fd | grep -c '^3$' >count; cat count; echo $WORD; echo \"${HOME-unset}\"",
      { cwd: tempDir(), timeoutMs: 60_000, env: { WORD: "a b", HOME: undefined } },
    );
    // ls itself opens /proc/self/fd as fd 3: exactly that one.
    assert.deepEqual(text(result.tail).trim().split("\n"), ["read=1", "1", "a b", "unset"]);
  });

  test("kills the whole group when the time is up", async () => {
    const dir = tempDir();
    const result = await runCommand("sleep 1000 & echo $! >child; wait", {
      cwd: dir,
      timeoutMs: 300,
    });
    assert.equal(result.timedOut, true);
    await until(() => !runs(pidIn(join(dir, "child"))));
  });

  test("kills what the command left behind in its group", async () => {
    const dir = tempDir();
    const result = await runCommand("sleep 1000 & echo $! >child", { cwd: dir, timeoutMs: 60_000 });
    assert.equal(result.exit, 0);
    await until(() => !runs(pidIn(join(dir, "child"))));
  });

  test("a process that left the group and holds the output open doesn't hold the result up", async () => {
    const dir = tempDir();
    const result = await runCommand(
      "setsid sh -c 'echo $$ >child; exec sleep 1000' & until [ -s child ]; do :; done",
      {
        cwd: dir,
        timeoutMs: 60_000,
      },
    );
    assert.equal(result.exit, 0);
    await until(() => pidIn(join(dir, "child")) > 0);
    process.kill(pidIn(join(dir, "child")), "SIGKILL");
  });

  test("its standard streams can be opened by name", async () => {
    const result = await runCommand(
      "cat /dev/stdin; echo out >/dev/stdout; echo err >/dev/stderr; echo tee | tee /dev/stderr >/dev/null",
      { cwd: tempDir(), timeoutMs: 60_000, input: Buffer.from("input\n") },
    );
    assert.equal(result.exit, 0, text(result.tail));
    assert.deepEqual(text(result.tail).trim().split("\n").sort(), ["err", "input", "out", "tee"]);
  });

  test("pipes that were made meanwhile are taken, and leave no directory", async () => {
    const here = process.env.TMPDIR;
    const cwd = tempDir();
    process.env.TMPDIR = tempDir();
    try {
      await Promise.all([preparePipes(), preparePipes()]);
      const { exit } = await runCommand("echo err >/dev/stderr", { cwd, timeoutMs: 60_000 });
      assert.equal(exit, 0);
      assert.deepEqual(readdirSync(process.env.TMPDIR), []);
    } finally {
      if (here === undefined) delete process.env.TMPDIR;
      else process.env.TMPDIR = here;
    }
  });

  test("large input is whole, and need not be read", async () => {
    const input = Buffer.alloc(3_000_000, "abc\n");
    const options = { cwd: tempDir(), timeoutMs: 60_000, input };
    const sum = createHash("sha256").update(input).digest("hex");
    assert.equal(text((await runCommand("sha256sum", options)).tail).slice(0, 64), sum);
    assert.equal((await runCommand("exit 3", options)).exit, 3);
  });

  test("many at once, and many after another, leave no descriptor behind", async () => {
    const count = () => readdirSync("/proc/self/fd").length;
    const round = () =>
      Promise.all(Array.from({ length: 20 }, async (_, i) => {
        const { tail } = await runCommand(`echo ${i}; echo ${i} >&2`, {
          cwd: tempDir(),
          timeoutMs: 60_000,
          input: Buffer.from("x"),
        });
        assert.equal(text(tail), `${i}\n${i}\n`);
      }));
    await round();
    await round();
    const before = count();
    for (let i = 0; i < 3; i++) await round();
    // Pipes that are ready for the next ones don't count; the runtime gives some back a turn later.
    await until(() => count() <= before + 16);
  });

  test("what it left behind can't time it out once it has ended by itself", async () => {
    const dir = tempDir();
    const result = await runCommand("setsid sleep 30 & echo $! >child; echo said", {
      cwd: dir,
      timeoutMs: 1000,
    });
    process.kill(pidIn(join(dir, "child")), "SIGKILL");
    assert.deepEqual([result.exit, result.timedOut, text(result.tail)], [0, false, "said\n"]);
  });

  test("aborting kills the group and rejects with the reason", async () => {
    const dir = tempDir();
    const abort = new AbortController();
    const reason = new Error("lock lost");
    const run = runCommand("echo $$ >shell; sleep 1000 & echo $! >child; wait", {
      cwd: dir,
      timeoutMs: 60_000,
      signal: abort.signal,
    });
    await until(() => pidIn(join(dir, "child")) > 0);
    abort.abort(reason);
    await assert.rejects(run, reason);
    await until(() => !runs(pidIn(join(dir, "child"))) && !runs(pidIn(join(dir, "shell"))));
  });

  test("the group dies when the process that runs it is killed by SIGKILL", async () => {
    const dir = tempDir();
    const module = new URL("../../src/platform/process.ts", import.meta.url).pathname;
    const script = `import { runCommand } from ${JSON.stringify(module)};
      await runCommand("sleep 1000 & echo $! >child; wait", { cwd: ${
      JSON.stringify(dir)
    }, timeoutMs: 600000 });`;
    const args = "Deno" in globalThis ? ["eval", "--no-check", script] : ["-e", script];
    const runner = spawn(process.execPath, args, { stdio: "ignore" });
    await until(() => pidIn(join(dir, "child")) > 0);
    process.kill(runner.pid!, "SIGKILL");
    await until(() => !runs(pidIn(join(dir, "child"))));
  });

  test("keeps the end of a long output, and streams all of it", async () => {
    let streamed = 0;
    const result = await runCommand("head -c 3000000 /dev/zero | tr '\\0' x; echo end", {
      cwd: tempDir(),
      timeoutMs: 60_000,
      onOutput: (chunk) => void (streamed += chunk.length),
    });
    assert.equal(streamed, 3_000_004);
    assert.equal(result.tail.length, MAX_TAIL_BYTES);
    assert.match(text(result.tail), /xend\n$/);
  });

  test("a wrapper runs in front; one that isn't installed is said so", async () => {
    const wrapped = await runCommand("echo $WRAPPED", {
      cwd: tempDir(),
      timeoutMs: 60_000,
      wrapper: ["env", "WRAPPED=yes"],
    });
    assert.equal(text(wrapped.tail), "yes\n");
    await assert.rejects(
      runCommand("true", { cwd: tempDir(), timeoutMs: 60_000, wrapper: ["no-such-program-here"] }),
      (error) => isAgentqError(error, "command-not-started"),
    );
  });

  test("says which signal ended a command", async () => {
    const result = await runCommand("kill -TERM $$", { cwd: tempDir(), timeoutMs: 60_000 });
    assert.equal(result.exit, null);
    assert.equal(result.killedBy, "SIGTERM");
  });
});
