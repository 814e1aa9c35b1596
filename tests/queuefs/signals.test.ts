/** SIGTERM or SIGHUP while a command is at work: what has been done is told, and only what wasn't is interrupted. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { closeSync, existsSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { deliverable } from "../../cli/commands/queue/common.ts";
import type { Context } from "../../cli/context.ts";
import type { QueueBackend } from "../../src/queuefs/contract.ts";
import { AgentqError } from "../../src/errors.ts";
import { tryExclusive } from "../../src/store/exclusive.ts";
import { storePaths } from "../../src/store/layout.ts";
import { storePlatform } from "../../src/store/platform.ts";
import { tempDir } from "../helpers/git.ts";
import { until } from "./helpers/redis.ts";

const path = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const main = path("../../cli/main.ts");
const hook = `--preload=${path("signal-hook.ts")}`;
const deno = process.versions.deno !== undefined;
const start = (...flags: string[]) =>
  deno ? ["run", "-A", "--no-check", "--quiet", ...flags, main] : [...flags, main];
/** Deno shows such an exit status as the signal. */
/** In SigCgt. */
const BIT = { SIGTERM: 1 << 14, SIGHUP: 1 } as const;
const EXIT = { SIGTERM: 143, SIGHUP: 129 };
const LONG = { timeout: 120_000 };

function setup() {
  const state = tempDir();
  const env = { ...process.env, AGENTQ_STATE: state, AGENTQ_JSON: "1" };
  const run = (words: string, flags: string[] = []) => {
    const { status, signal, stdout } = spawnSync(
      process.execPath,
      [...start(...flags), "queue", ...words.split(" ")],
      { env, encoding: "utf8" },
    );
    const documents = stdout.split("\n").filter((line) => line !== "").map((l) => JSON.parse(l));
    // Deno shows an exit status of 143 as the signal.
    return { code: signal === "SIGTERM" ? 143 : status, documents };
  };
  const done = (words: string) => {
    const { code, documents } = run(words);
    assert.equal(code, 0, JSON.stringify(documents));
    return documents;
  };
  return { state, env, run, done, stopped: (words: string) => run(words, [hook]) };
}

describe("a signal", () => {
  test("that comes after the commit leaves the answer and the exit as they are", LONG, () => {
    const { done, stopped } = setup();
    done("create jobs");
    const works = [
      "enqueue jobs a --id a",
      "fs write /jobs/enqueue b",
      "create more",
      "rm more",
      "clear jobs",
    ];
    for (const words of works) {
      const { code, documents } = stopped(words);
      assert.equal(code, 0, `${words}: ${JSON.stringify(documents)}`);
      assert.equal(documents.length, 1);
      assert.ok(!("error" in documents[0]), words);
    }
    done("enqueue jobs c --id c");
    done("dequeue jobs");
    assert.equal(stopped("ack jobs c").code, 0);
    assert.equal(done("status jobs")[0].unacked, 0);
  });

  const waits: [string, string, "SIGTERM" | "SIGHUP"][] = [
    ["for the store's lock", "enqueue jobs x", "SIGTERM"],
    ["for data", "enqueue jobs -", "SIGTERM"],
    ["for data of a control path", "fs write /jobs/enqueue", "SIGTERM"],
    ["for data, its terminal closed,", "enqueue jobs -", "SIGHUP"],
  ];
  for (const [what, words, sent] of waits) {
    test(`ends the wait ${what} at once, and nothing was done`, LONG, async () => {
      const { state, env, done } = setup();
      done("create jobs");
      const root = join(state, "store");
      const paths = storePaths(root);
      const locked = what.endsWith("lock");
      if (locked) assert.ok(tryExclusive(storePlatform({}), paths.lock));
      // Open for writing too, so that it never ends.
      const fifo = join(state, "fifo");
      assert.equal(spawnSync("mkfifo", [fifo]).status, 0);
      const input = openSync(fifo, "r+");
      const child = spawn(process.execPath, [...start(), "queue", ...words.split(" ")], {
        env,
        stdio: [input, "pipe", "inherit"],
      });
      let out = "";
      child.stdout!.on("data", (chunk) => out += chunk);
      const ended = new Promise((resolve) => {
        child.once(
          "close",
          (code, signal) => resolve(signal === null ? code : EXIT[signal as "SIGTERM"]),
        );
      });
      // It has begun: it looks at the files of the store, or has its handlers.
      await until(() => handles(child.pid!, sent));
      if (locked) await new Promise((resolve) => setTimeout(resolve, 300));
      child.kill(sent);
      assert.equal(await ended, EXIT[sent]);
      closeSync(input);
      assert.equal(JSON.parse(out).error?.code, "interrupted", out);
      assert.equal(JSON.parse(out).error.message, `stopped by ${sent}`);
      const after = JSON.parse(readFileSync(paths.state, "utf8"));
      assert.deepEqual(after.queues, { jobs: {} });
      assert.equal(existsSync(paths.lock), locked);
    });
  }
});

describe("messages that are taken for an answer", () => {
  const take = async (at: "while" | "after", back: () => Promise<unknown>) => {
    const abort = new AbortController();
    const stop = () => abort.abort(new AgentqError("interrupted", "stopped"));
    const seen: string[] = [];
    const ended = deliverable({ signal: abort.signal } as Context, {
      backend: { kind: "store" } as QueueBackend,
      queue: "jobs",
      async take() {
        seen.push("take");
        if (at === "while") stop();
        return "message";
      },
      print(message) {
        seen.push(`print ${message}`);
        if (at === "after") stop();
      },
      async giveBack(message) {
        seen.push(`give back ${message}`);
        await back();
      },
      ids: (message) => [message],
    });
    const error = await ended.then(() => null, ({ code }) => code);
    return { seen, error };
  };

  test("go back where a signal came before they were told", async () => {
    const given = await take("while", () => Promise.resolve());
    assert.deepEqual(given, { seen: ["take", "give back message"], error: "interrupted" });
  });

  // Nothing that is printed here comes to standard output, so that no answer was given.
  test("are told, or named, where they can't go back", async () => {
    const given = await take("while", () => Promise.reject(new Error("no")));
    const seen = ["take", "give back message", "print message"];
    assert.deepEqual(given, { seen, error: "io-error" });
  });

  test("go back where nobody reads the answer", async () => {
    const given = await take("after", () => Promise.resolve());
    assert.deepEqual(given.seen, ["take", "print message", "give back message"]);
  });
});

/** Whether the process catches SIGTERM (bit 15 of SigCgt). */
function handles(pid: number, sent: "SIGTERM" | "SIGHUP"): boolean {
  try {
    const caught = /^SigCgt:\s*([0-9a-f]+)$/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"));
    return caught !== null && (parseInt(caught[1]!.slice(-4), 16) & BIT[sent]) !== 0;
  } catch {
    return false;
  }
}
