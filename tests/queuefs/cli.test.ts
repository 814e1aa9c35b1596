/** The queue commands as a person runs them. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { DatabaseSync } from "node:sqlite";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { tempDir } from "../helpers/git.ts";
import { startRedis, until } from "./helpers/redis.ts";

const main = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));
const start = process.versions.deno === undefined ? [main] : ["run", "-A", "--no-check", main];
const LONG = { timeout: 120_000 };

function commands(backend: string | null) {
  const state = tempDir();
  const more = backend === null ? [] : ["--backend", backend];
  const env = { ...process.env, AGENTQ_STATE: state };
  const run = (args: string[], input: string | Uint8Array = "") => {
    const [own, rest] = args.includes("--")
      ? [args.slice(0, args.indexOf("--")), args.slice(args.indexOf("--"))]
      : [args, []];
    const ran = spawnSync(process.execPath, [...start, "queue", ...own, ...more, ...rest], {
      env,
      input,
      encoding: "utf8",
      cwd: state,
    });
    return { code: ran.status, out: ran.stdout, err: ran.stderr };
  };
  const ok = (...args: string[]) => {
    const { code, out, err } = run(args);
    assert.equal(code, 0, `${args.join(" ")}: ${err}${out}`);
    return out.trimEnd();
  };
  const json = (...args: string[]) => JSON.parse(ok(...args));
  return { run, ok, json, env, more, state };
}

test("a message whose queue is removed under its handler is said to be gone with it", LONG, () => {
  const { ok, run, more } = commands(`sqlite:${join(tempDir(), "q.db")}`);
  ok("create", "jobs");
  ok("enqueue", "jobs", "x", "--id", "one");
  const remove = [process.execPath, ...start, "queue", "rm", "jobs", ...more];
  const { err } = run(["work", "jobs", "--", ...remove]);
  assert.match(err, /^one: gone with its queue: /m);
  assert.doesNotMatch(err, /comes back/);
});

test("a queue that isn't there is advised to be created where it was asked for", LONG, () => {
  const { env, state } = commands(null);
  const inPlace = (command: string[], variables: Record<string, string> = {}) => {
    const ran = spawnSync(process.execPath, [...start, ...command], {
      cwd: state,
      env: { ...env, ...variables },
      encoding: "utf8",
    });
    return { code: ran.status, err: ran.stderr };
  };
  const hint = ({ err }: { err: string }) => /^hint: (.*)$/m.exec(err)![1]!;
  /** Types the command that the hint has, in a shell. */
  const follow = (told: string, name = "") => {
    const command = /`agentq (queue create .*?)`/.exec(told)![1]!.replace("NAME", name);
    const words = ["-c", `"$@" ${command}`, "sh", process.execPath, ...start];
    const ran = spawnSync("sh", words, { cwd: state, env, encoding: "utf8" });
    assert.equal(ran.status, 0, `${command}: ${ran.stderr}`);
  };
  for (const place of ["store:it's here", "sqlite:$x y.db", "v1:one"]) {
    const size = ["queue", "size", "jobs", "--backend", place];
    follow(hint(inPlace(size)), "other");
    const missing = inPlace(size);
    assert.match(missing.err, /there is no queue "jobs"/, place);
    assert.match(
      hint(missing),
      /`agentq queue create jobs --backend .*; `agentq queue ls --backend /,
    );
    follow(hint(missing));
    assert.equal(inPlace(size).code, 0, place);
  }
  assert.deepEqual(existsSync(join(state, "store")), false);
  // The place that is meant without the option is told without it.
  const own = ["queue", "size", "jobs", "--state", join(state, "a b")];
  follow(hint(inPlace(own)), "jobs");
  assert.equal(inPlace(own).code, 0);
  const set = inPlace(["queue", "size", "none"], { AGENTQ_BACKEND: "store:it's here" });
  assert.match(hint(set), /`agentq queue create none`; `agentq queue ls` lists/);
  // What a store can't have isn't advised.
  for (const name of ["Jobs", "con"]) {
    const told = hint(inPlace(["queue", "size", name, "--backend", "store:it's here"]));
    assert.match(told, /^No queue of a store can be called /);
    assert.doesNotMatch(told, /queue create/);
  }
  assert.match(
    hint(inPlace(["queue", "size", "Jobs", "--backend", "v1:one"])),
    /queue create Jobs --backend/,
  );
});

test(
  "a Redis url, which may hold a password, isn't repeated by the advice to create a queue",
  LONG,
  async () => {
    const server = await startRedis({ config: ["requirepass geheim"] });
    const { run } = commands(`redis://:geheim@127.0.0.1:${server.port}`);
    for (const words of [["size", "jobs"], ["rm", "jobs"], ["fs", "ls", "jobs"]]) {
      const { err } = run(words);
      assert.match(
        err,
        /`agentq queue create jobs` with the same --backend; `agentq queue ls` with /,
      );
      assert.doesNotMatch(err, /geheim/);
    }
    await server.kill();
  },
);

test("a backend that can't be meant is told with where it stands, and without itself", LONG, () => {
  const { env, state } = commands(null);
  const said = (variables: Record<string, string>, ...flags: string[]) => {
    const words = [...start, "queue", "ls", "--json", ...flags];
    const ran = spawnSync(process.execPath, words, {
      cwd: state,
      env: { ...env, ...variables },
      encoding: "utf8",
    });
    assert.equal(ran.status, 64, ran.stderr);
    const { message, hint } = JSON.parse(ran.stdout).error;
    assert.doesNotMatch(`${message} ${hint} ${ran.stderr}`, /s3cr3t/);
    return message;
  };
  const bad = "reddis://me:s3cr3t@host";
  const inConfig = {
    GIT_CONFIG_COUNT: "1",
    GIT_CONFIG_KEY_0: "agentq.backend",
    GIT_CONFIG_VALUE_0: bad,
  };
  const what = "the backend is none that agentq knows";
  assert.equal(said({}, "--backend", bad), what);
  assert.equal(said({ AGENTQ_BACKEND: bad }), `AGENTQ_BACKEND: ${what}`);
  assert.equal(said(inConfig), `git config agentq.backend: ${what}`);
  assert.match(said({ AGENTQ_BACKEND: "sqlite:" }), /^AGENTQ_BACKEND: sqlite: needs a path/);
});

test("a second signal ends a worker at once, with a document that says so", LONG, async () => {
  const { ok, env, more, state } = commands(`sqlite:${join(tempDir(), "q.db")}`);
  ok("create", "jobs");
  ok("enqueue", "jobs", "x");
  const words = ["queue", "work", "jobs", "--json", ...more, "--", "sleep", "1000"];
  const child = spawn(process.execPath, [...start, ...words], { env, cwd: state });
  let out = "";
  child.stdout.on("data", (chunk) => out += chunk);
  const ended = new Promise((resolve) => child.once("close", (...how) => resolve(how)));
  await until(() => JSON.parse(ok("status", "jobs")).processing === 1);
  child.kill("SIGTERM");
  // Again until it is heard: two that come at once are one.
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, 300));
    if (out !== "") break;
    process.kill(child.pid!, "SIGTERM"); // Deno's child.kill() sends one only.
  }
  // Deno tells such a status as the signal.
  assert.match(String(await ended), /^(143,|,SIGTERM)$/);
  const { error } = JSON.parse(out);
  assert.equal(error.code, "interrupted");
  assert.match(error.message, /a second SIGTERM/);
  assert.equal(error.retryable, undefined);
});

describe("the queue commands", () => {
  const backends: [string, () => Promise<{ url: string | null; close?: () => Promise<void> }>][] = [
    ["the default store", async () => ({ url: null })],
    ["sqlite", async () => ({ url: `sqlite:${join(tempDir(), "q.db")}` })],
    ["redis", async () => {
      const server = await startRedis({ config: ["appendfsync everysec"] });
      return { url: `redis://127.0.0.1:${server.port}`, close: () => server.kill() };
    }],
  ];
  for (const [name, open] of backends) {
    test(`take a message all the way, over several processes (${name})`, LONG, async () => {
      const { url, close } = await open();
      const { run, ok, json } = commands(url);
      assert.notEqual(run(["size", "jobs"]).code, 0);
      ok("create", "jobs");
      const id = ok("enqueue", "jobs", "hello");
      assert.equal(ok("enqueue", "jobs", "-", "--id", "x1"), "x1");
      assert.deepEqual(json("peek", "jobs"), { id, data: "hello" });
      assert.deepEqual(json("status", "jobs"), {
        schema: "agentq.queue/1",
        pending: 2,
        processing: 0,
        unacked: 2,
        complete: false,
      });
      assert.deepEqual(json("dequeue", "jobs"), { id, data: "hello" });
      assert.equal(ok("size", "jobs"), "1");
      assert.equal(ok("recover", "jobs"), "0");
      assert.equal(run(["ack", "jobs", id, "--owner", "other"]).code, 1);
      assert.equal(ok("recover", "jobs", "--stale", "0"), "1");
      const stale = run(["ack", "jobs", id, "--json"]);
      assert.equal(stale.code, 1);
      assert.equal(JSON.parse(stale.out).error.code, "stale-delivery");
      const receipt = json("dequeue", "jobs", "--receipt");
      assert.equal(receipt.attempts, 1);
      // Of several each is told by itself.
      ok("enqueue", "jobs", "-", "--id", "x0");
      assert.equal(json("dequeue", "jobs").id, "x1");
      const partly = run(["requeue", "jobs", "gone", "x1", "none"]);
      assert.deepEqual([partly.code, partly.out], [1, "x1\n"]);
      assert.match(partly.err, /"gone", "none" in "jobs": not in processing/);
      assert.equal(json("dequeue", "jobs").id, "x0");
      ok("ack", "jobs", "x0");
      ok("ack", "jobs", id, "--lease", receipt.lease);
      assert.equal(run(["wait", "jobs", "--timeout", "0.1"]).code, 3);
      assert.equal(json("dequeue", "jobs").id, "x1");
      ok("fail", "jobs", "x1", "--reason", "because");
      assert.equal(json("failed", "show", "jobs", "x1").reason, "because");
      assert.deepEqual(json("dequeue", "jobs"), {});
      assert.equal(ok("failed", "retry", "jobs", "--all"), "x1");
      assert.equal(ok("clear", "jobs"), "1");
      ok("wait", "jobs");
      assert.equal(JSON.parse(ok("fs", "read", "jobs/status")).pending, 0);
      assert.equal(ok("rm", "jobs"), "jobs");
      await close?.();
    });
  }

  test(
    "nothing but this program speaks: what libraries say stays off the terminal",
    LONG,
    async () => {
      const server = await startRedis();
      server.cli("acl", "setuser", "plain", "on", ">pw", "~*", "+@all", "-info");
      const [host, word] = [`127.0.0.1:${server.port}`, "s3cr3t"];
      // A password that the server doesn't ask for; a user who may not look whether it is loading.
      for (const url of [`redis://:${word}@${host}`, `redis://plain:pw@${host}`]) {
        const { run } = commands(url);
        for (const args of [["create", "jobs"], ["status", "jobs"], ["size", "none", "--json"]]) {
          const { code, out, err } = run(args);
          assert.equal(code, args.includes("none") ? 2 : 0, out + err);
          // Of a password for nothing it speaks itself, once, where it tells of the server.
          const warns = url.includes(`:${word}@`) && !args.includes("none");
          const said = warns ? /^warning: [^\n]* the server asks for none: [^\n]*\n$/ : /^$/;
          assert.match(err, said, args.join(" "));
        }
        const told = run(["status", "jobs", "--verbose"]).err;
        assert.match(told, /password was supplied|ready check/);
        const lines = told.split("\n").filter((line) => !line.startsWith("warning: "));
        assert.equal(lines.length, 2, "one line");
      }
      await server.kill();
    },
  );

  test("names that are mistyped are not found, and ids named twice are one", LONG, async () => {
    const file = join(tempDir(), "q.db");
    for (const url of [null, `sqlite:${file}`]) {
      const { run, ok, json } = commands(url);
      ok("create", "jobs");
      ok("create", "team/a");
      const fails = (expected: string, ...args: string[]) => {
        const { code, out } = run([...args, "--json"]);
        assert.equal(code, 2, args.join(" "));
        assert.equal(JSON.parse(out).error.code, expected, args.join(" "));
      };
      for (const typo of ["typo", "tea"]) {
        fails("queue-not-found", "ls", typo);
        fails("queue-not-found", "status", typo);
        fails("queue-not-found", "status", typo, "--all");
        fails("queue-not-found", "metrics", typo);
        fails("queue-not-found", "failed", "ls", typo);
        fails("queue-not-found", "fs", "ls", typo);
        fails("queue-not-found", "failed", "prune", typo, "x");
      }
      assert.equal(ok("ls", "team"), "team/a");
      assert.equal(json("status", "team", "--all").queue, "team/a");

      for (const id of ["a", "b", "c"]) ok("enqueue", "jobs", id, "--id", id);
      ok("dequeue", "jobs", "--count", "3");
      assert.deepEqual(json("ack", "jobs", "a", "a", "--json").messages, [
        { id: "a", outcome: "done" },
      ]);
      assert.equal(ok("requeue", "jobs", "b", "c", "b"), "b\nc");
      ok("dequeue", "jobs", "--count", "2");
      for (const id of ["b", "c"]) ok("fail", "jobs", id);
      for (const verb of ["show", "retry", "prune"]) {
        fails("message-not-found", "failed", verb, "jobs", "nope");
      }
      // All or none.
      fails("message-not-found", "failed", "prune", "jobs", "b", "nope");
      assert.equal(ok("failed", "prune", "jobs", "b", "b"), "1");
      assert.equal(ok("failed", "prune", "jobs"), "1");
      assert.equal(ok("failed", "prune", "jobs"), "0");
    }
  });

  test("work runs a program for each message; metrics tell what was done", LONG, () => {
    const { run, ok, json, state } = commands(`sqlite:${join(tempDir(), "q.db")}`);
    ok("create", "jobs");
    assert.equal(
      run(["enqueue", "jobs", "-", "--lines"], "a\nb\nbad\n").out.trim().split("\n").length,
      3,
    );
    const handler = join(state, "handle.sh");
    writeFileSync(handler, '#!/bin/sh\nread -r line\necho "did $line"\n[ "$line" != bad ]\n');
    chmodSync(handler, 0o755);
    const worked = run([
      ..."work jobs --concurrency 2 --max-attempts 2 --backoff 0.01 --until-empty".split(" "),
      "--",
      handler,
    ]);
    assert.equal(worked.code, 0, worked.err);
    assert.deepEqual(worked.out.trim().split("\n").sort(), [
      "did a",
      "did b",
      "did bad",
      "did bad",
    ]);
    assert.match(worked.err, /to the dead letters: exit status 1: did bad/);
    assert.equal(json("metrics", "jobs").processed, 2);
    assert.equal(json("metrics", "jobs").failed_count, 1);
    assert.match(ok("metrics", "--prometheus"), /agentq_queue_processed_total\{queue="jobs"\} 2/);
    assert.match(ok("failed", "ls"), /^jobs\t\S+\t2x\texit status 1: did bad$/);
    assert.equal(run(["work", "jobs", "--", "/no/such/program"]).code, 2);
  });

  test(
    "SIGTERM lets the program finish, acks it, takes nothing more and exits 143",
    LONG,
    async () => {
      const { run, ok, env, more, state } = commands(`sqlite:${join(tempDir(), "q.db")}`);
      ok("create", "jobs");
      run(["enqueue", "jobs", "-", "--lines"], "a\nb\n");
      const mark = join(state, "mark");
      const program = `echo start >> '${mark}'; sleep 0.5; echo end >> '${mark}'`;
      const child = spawn(
        process.execPath,
        [...start, "queue", "work", "jobs", ...more, "--", "sh", "-c", program],
        { env, stdio: "ignore" },
      );
      await until(() => existsSync(mark));
      child.kill("SIGTERM");
      // Deno shows an exit status of 143 as the signal. That the program ended by itself shows below.
      const code = await new Promise((resolve) =>
        child.once("exit", (status, signal) => resolve(status ?? signal))
      );
      assert.ok(code === 143 || code === "SIGTERM", String(code));
      assert.equal(readFileSync(mark, "utf8"), "start\nend\n");
      assert.equal(JSON.parse(ok("status", "jobs")).unacked, 1);
    },
  );

  test("failed retry --all retries what it can and says what stays", LONG, async () => {
    const file = join(tempDir(), "q.db");
    const { run, ok, json } = commands(`sqlite:${file}`);
    ok("create", "jobs");
    const fail = (id: string, data: string) => {
      ok("enqueue", "jobs", data, "--id", id);
      ok("dequeue", "jobs");
      ok("fail", "jobs", id, "--reason", "because");
    };
    fail("twice", "first");
    fail("twice", "second");
    fail("once", "alone");
    fail("waits", "old");
    fail("broken", "x");
    ok("enqueue", "jobs", "new", "--id", "waits");
    const db = new DatabaseSync(file);
    db.exec("UPDATE agentq_failed SET data = 'nonsense' WHERE failed_id = 'broken'");
    db.close();
    // By name it is all or none.
    assert.equal(run(["failed", "retry", "jobs", "twice", "twice.2"]).code, 2);
    assert.equal(run(["failed", "retry", "jobs", "twice", "--all"]).code, 64);
    assert.equal(json("size", "jobs", "--json").size, 1);
    const all = run(["failed", "retry", "jobs", "--all"]);
    assert.equal(all.code, 0, all.err);
    assert.deepEqual(all.out.split("\n").filter(Boolean).sort(), ["once", "twice"]);
    assert.match(all.err, /^twice\.2 stays: an older one of twice goes first$/m);
    assert.match(all.err, /^broken stays: its payload can't be read$/m);
    assert.match(all.err, /^waits stays: .*pending/m);
    assert.equal(json("dequeue", "jobs").data, "new");
    assert.equal(json("dequeue", "jobs").data, "first");
    assert.equal(json("dequeue", "jobs").data, "alone");
    // What is out would lose against an older one that is made pending.
    const rest = json("failed", "retry", "jobs", "--all", "--json");
    assert.deepEqual(rest.retried, []);
    const left = (answer: { left: { failed: string; reason: string }[] }) =>
      answer.left.map(({ failed }) => failed).sort();
    assert.deepEqual(left(rest), ["broken", "twice.2", "waits"]);
    assert.equal(
      rest.left.filter((each: { reason: string }) => /being processed/.test(each.reason)).length,
      2,
    );
    for (const id of ["waits", "twice"]) ok("ack", "jobs", id);
    const last = json("failed", "retry", "jobs", "--all", "--json");
    assert.deepEqual(last.retried.sort(), ["twice", "waits"]);
    assert.deepEqual(left(last), ["broken"]);
  });

  test(
    "status --all and metrics count every queue; wait says on stderr what it waits for",
    LONG,
    async () => {
      const { run, ok, env, more } = commands(`sqlite:${join(tempDir(), "q.db")}`);
      for (const queue of ["a", "b/c", "b/d"]) ok("create", queue);
      run(["enqueue", "b/c", "-", "--lines"], "1\n2\n3\n");
      ok("dequeue", "b/c");
      const counts = (text: string) =>
        text.split("\n").map((line) => JSON.parse(line)).map(
          ({ queue, pending, processing, unacked, complete }) =>
            [queue, pending, processing, unacked, complete].join(" "),
        );
      const both = ["b/c 2 1 3 false", "b/d 0 0 0 true"];
      assert.deepEqual(counts(ok("status", "--all")), ["a 0 0 0 true", ...both]);
      assert.deepEqual(counts(ok("status", "b", "--all", "--json")), both);
      assert.equal(run(["status"]).code, 64);
      const metrics = ok("metrics", "--json").split("\n").map((line) => JSON.parse(line));
      assert.deepEqual(metrics.map(({ queue, unacked }) => [queue, unacked]), [
        ["a", 0],
        ["b/c", 3],
        ["b/d", 0],
      ]);
      assert.match(ok("metrics", "--prometheus"), /^agentq_queue_unacked\{queue="b\/c"\} 3$/m);
      const child = spawn(process.execPath, [...start, "queue", "wait", "b/c", ...more], { env });
      let [out, err] = ["", ""];
      child.stdout.on("data", (chunk) => out += chunk);
      child.stderr.on("data", (chunk) => err += chunk);
      await until(() => err.includes("\n"));
      ok("clear", "b/c");
      assert.equal(await new Promise((resolve) => child.once("close", resolve)), 0);
      assert.match(err, /^b\/c: 2 pending, 1 processing$/m);
      assert.equal(out, "b/c is complete\n");
    },
  );

  test("what v1 can't do it refuses, whether there is anything to do it to or not", LONG, () => {
    const { run, ok } = commands(`v1:${join(tempDir(), "v1")}`);
    ok("create", "jobs");
    for (
      const words of [
        "failed retry jobs --all",
        "failed retry jobs a",
        "failed prune jobs",
        "failed prune jobs a",
        "recover jobs",
        "requeue jobs a",
        "clear jobs",
        "rm jobs",
        "work jobs --until-empty -- true",
      ]
    ) {
      const { code, out } = run([
        ...words.split(" ").slice(0, 2),
        "--json",
        ...words.split(" ").slice(2),
      ]);
      assert.equal(`${code} ${JSON.parse(out).error.code}`, "2 backend-unsupported", words);
    }
  });

  test("memory:, unknown backends and hostile names are refused with a reason", LONG, () => {
    const refused = (backend: string, args: string[]) => {
      const { code, out } = commands(backend).run([...args, "--json"]);
      return `${code} ${JSON.parse(out).error.code}`;
    };
    assert.equal(refused("memory:", ["ls"]), "2 backend-unsupported");
    assert.equal(refused("nonsense", ["ls"]), "64 usage");
    assert.equal(refused("sqlite:", ["ls"]), "64 usage");
    const file = `sqlite:${join(tempDir(), "q.db")}`;
    assert.equal(refused(file, ["ls"]), "2 backend-missing");
    for (const name of ["../x", "a/ack", "a\u001b[31m", "a b"]) {
      assert.equal(refused(file, ["create", name]), "2 queue-name-invalid");
    }
  });
});
