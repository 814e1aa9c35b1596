/** Workers, named queues, waits and counters. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import {
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, test } from "node:test";
import { AgentqError } from "../../src/errors.ts";
import { memoryBackend } from "../../src/queuefs/backends/memory.ts";
import { sqliteBackend } from "../../src/queuefs/backends/sqlite/backend.ts";
import { backoffMs } from "../../src/queuefs/backoff.ts";
import { commandHandler } from "../../src/queuefs/command-handler.ts";
import { whyNotRun } from "../../src/queuefs/command-program.ts";
import { isAllComplete, waitComplete } from "../../src/queuefs/completion.ts";
import type { Delivery, QueueBackend } from "../../src/queuefs/contract.ts";
import {
  metricsDirectory,
  openMetricsFile,
  readAllMetrics,
} from "../../src/queuefs/metrics-files.ts";
import { emptyMetrics, prometheusText } from "../../src/queuefs/metrics.ts";
import { namedQueue } from "../../src/queuefs/named-queue.ts";
import { workerOwner } from "../../src/queuefs/owner.ts";
import { startWorker, type WorkerEvent, type WorkerOptions } from "../../src/queuefs/worker.ts";
import { tempDir } from "../helpers/git.ts";
import { bytes, until } from "./helpers/redis.ts";

const FAST: WorkerOptions = { backoff: { baseMs: 1, maxMs: 5 }, idleMs: 5 };
const text = (data: Uint8Array) => Buffer.from(data).toString();

async function filled(...texts: string[]): Promise<QueueBackend> {
  const backend = memoryBackend();
  await backend.create("q");
  await backend.enqueue("q", texts.map((each) => ({ data: bytes(each) })));
  return backend;
}

describe("startWorker()", () => {
  test("handles everything, at most so many at once, and ends when the queue is complete", async () => {
    const backend = await filled(...Array.from({ length: 40 }, (_, i) => `${i}`));
    const seen: string[] = [];
    let [now, most] = [0, 0];
    const worker = startWorker(backend, "q", async ({ data }) => {
      most = Math.max(most, ++now);
      await new Promise((resolve) => setTimeout(resolve, 1));
      seen.push(text(data));
      now--;
    }, { ...FAST, concurrency: 4, untilEmpty: true });
    await worker.done;
    assert.equal(seen.length, 40);
    assert.equal(most, 4);
    assert.equal(worker.metrics.processed, 40);
    assert.equal(await backend.complete(["q"]), true);
  });

  test("tries again with the attempt counted, then gives up with the reason", async () => {
    const backend = await filled("bad", "good");
    const attempts: number[] = [];
    const events: WorkerEvent[] = [];
    const worker = startWorker(backend, "q", ({ data }, { attempt }) => {
      if (text(data) !== "bad") return;
      attempts.push(attempt);
      throw new Error(`no luck at ${attempt}`);
    }, { ...FAST, maxAttempts: 3, untilEmpty: true, onEvent: (event) => events.push(event) });
    await worker.done;
    assert.deepEqual(attempts, [1, 2, 3]);
    const [letter] = await backend.failed.list("q");
    assert.equal(letter!.reason, "no luck at 3");
    assert.equal(letter!.attempts, 3);
    const { processed, requeue_count, error_count, failed_count } = worker.metrics;
    assert.deepEqual({ processed, requeue_count, error_count, failed_count }, {
      processed: 1,
      requeue_count: 2,
      error_count: 3,
      failed_count: 1,
    });
    assert.equal(events.filter(({ type }) => type === "requeued").length, 2);
    await backend.failed.retry("q", [letter!.failedId]);
    assert.deepEqual(await backend.status("q"), { pending: 1, processing: 0 });
  });

  test("however many messages fail together, few calls settle them, and each is settled", async () => {
    const backend = await filled(...Array.from({ length: 100 }, (_, i) => `${i}`));
    let [most, now, calls] = [0, 0, 0];
    const counting: QueueBackend = {
      ...backend,
      settleAndDequeue: async (...all) => {
        most = Math.max(most, ++now);
        calls++;
        await new Promise((resolve) => setTimeout(resolve, 5));
        return await backend.settleAndDequeue(...all).finally(() => now--);
      },
    };
    const worker = startWorker(counting, "q", () => {
      throw new Error("no luck");
    }, { ...FAST, concurrency: 4, maxAttempts: 2, untilEmpty: true });
    await worker.done;
    assert.equal(most, 1);
    assert.ok(calls < 150, `${calls} calls for 200 handlings`);
    const { requeue_count, error_count, failed_count } = worker.metrics;
    assert.deepEqual({ requeue_count, error_count, failed_count }, {
      requeue_count: 100,
      error_count: 200,
      failed_count: 100,
    });
    assert.equal((await backend.failed.list("q")).length, 100);
  });

  test("a message is acked and the next one taken in one step; the last one isn't kept waiting", async () => {
    const backend = await filled("a", "b", "c");
    const steps: string[] = [];
    const watching: QueueBackend = {
      ...backend,
      settleAndDequeue: async (queue, endings, options) => {
        const turn = await backend.settleAndDequeue(queue, endings, options);
        const { settlements, deliveries } = turn;
        steps.push(
          `${settlements.length} acked, ${deliveries.map(({ data }) => text(data))} taken`,
        );
        return turn;
      },
    };
    // An hour between two looks at an empty queue: nothing but the end of a handler makes it ack.
    const worker = startWorker(watching, "q", async () => {
      await new Promise((resolve) => setTimeout(resolve, 1));
    }, { idleMs: 3_600_000 });
    await until(async () => await backend.complete(["q"]));
    assert.deepEqual(steps.slice(0, 4), [
      "0 acked, a taken",
      "1 acked, b taken",
      "1 acked, c taken",
      "1 acked,  taken",
    ]);
    await worker.stop();
    assert.equal(worker.metrics.processed, 3);
  });

  test("what ends beside a handler that goes on is acked at once, and its place is filled", async () => {
    const backend = await filled("slow", "a", "b");
    let finish = () => {};
    const worker = startWorker(backend, "q", async ({ data }) => {
      if (text(data) === "slow") await new Promise<void>((resolve) => finish = resolve);
    }, { idleMs: 3_600_000, concurrency: 2 });
    await until(() => worker.metrics.processed === 2);
    assert.deepEqual(await backend.status("q"), { pending: 0, processing: 1 });
    finish();
    await until(async () => await backend.complete(["q"]));
    await worker.stop();
    assert.equal(worker.metrics.processed, 3);
  });

  test("an ack whose answer was lost is no loss; an ending that can't be made doesn't hold up others", async () => {
    const backend = await filled("a", "bad", "c");
    let lost = 1;
    const shaky: QueueBackend = {
      ...backend,
      settleAndDequeue: async (queue, endings, options) => {
        if (endings.some(({ how }) => how === "fail")) {
          throw new AgentqError("backend-error", "no dead letters today");
        }
        const turn = await backend.settleAndDequeue(queue, endings, options);
        if (endings.length > 0 && lost-- > 0) {
          // What it took isn't known to the worker: it comes back when its lease runs out.
          throw new AgentqError("backend-outcome-unknown", "no answer");
        }
        return turn;
      },
    };
    const errors: string[] = [];
    const gate = Promise.withResolvers<void>();
    let handled = 0;
    const worker = startWorker(shaky, "q", async ({ data }) => {
      if (++handled === 3) gate.resolve();
      await gate.promise; // All end together.
      if (text(data) === "bad") throw new Error("bad");
    }, {
      ...FAST,
      concurrency: 3,
      maxAttempts: 1,
      leaseMs: 400,
      onEvent: (event) => {
        if (event.type === "unsettled") errors.push(`${event.id}: ${event.error}`);
        assert.notEqual(event.type, "error");
      },
    });
    await until(() => errors.length === 1 && worker.metrics.processed === 2);
    assert.match(errors[0]!, /no dead letters today/);
    assert.equal(worker.metrics.stale_count, 0);
    await worker.stop();
    assert.deepEqual((await backend.messages("q")).map(({ data }) => text(data!)), ["bad"]);
  });

  test("a backend and a handler that never wait leave the timers their turn", async () => {
    const backend = await filled(...Array.from({ length: 100 }, (_, i) => `${i}`));
    let timers = 0;
    const endless = setInterval(() => timers++, 1);
    const worker = startWorker(backend, "q", async ({ data }) => {
      await backend.enqueue("q", [{ data }]);
    }, FAST);
    await until(() => timers > 3);
    clearInterval(endless);
    await worker.stop();
    assert.deepEqual(await backend.status("q"), { pending: 100, processing: 0 });
  });

  test("a message whose workers died too often is given up, though no handler ever failed", async () => {
    const backend = await filled("killer");
    const gone = workerOwner().split("~").map((part, i) => i === 2 ? "1" : part).join("~");
    for (let i = 0; i < 3; i++) {
      await backend.dequeue("q", { owner: gone, leaseMs: 60_000 });
      await backend.recover("q");
    }
    let handled = 0;
    const worker = startWorker(backend, "q", () => void handled++, {
      ...FAST,
      maxAttempts: 3,
      untilEmpty: true,
    });
    await worker.done;
    assert.equal(handled, 0);
    const [letter] = await backend.failed.list("q");
    assert.match(letter!.reason, /given up after 3 attempts/);
    assert.equal(letter!.attempts, 3);
  });

  test("one that was only put back isn't said to have lost its worker", async () => {
    const backend = await filled("back");
    const [taken] = await backend.dequeue("q", { owner: workerOwner(), leaseMs: 60_000 });
    await backend.requeue("q", [taken!]);
    await startWorker(backend, "q", () => {}, { ...FAST, maxAttempts: 1, untilEmpty: true }).done;
    const [letter] = await backend.failed.list("q");
    assert.equal(
      letter!.reason,
      "given up after 1 attempt: each time it was put back, or its worker ended or lost it",
    );
  });

  test("an ack that fails is tried again; one that stays failing leaves the message unacknowledged", async () => {
    const backend = await filled("a");
    let failures = 2;
    const shaky: QueueBackend = {
      ...backend,
      settleAndDequeue: (queue, endings, options) =>
        endings.length > 0 && failures-- > 0
          ? Promise.reject(new AgentqError("backend-unreachable", "down"))
          : backend.settleAndDequeue(queue, endings, options),
    };
    const told: string[] = [];
    const worker = startWorker(shaky, "q", () => {}, {
      ...FAST,
      leaseMs: 200,
      untilEmpty: true,
      onEvent: ({ type }) => void told.push(type),
    });
    await worker.done;
    assert.equal(worker.metrics.processed, 1);
    assert.equal(worker.metrics.error_count, 2);
    assert.deepEqual(told, ["started", "away", "back", "acked"]);

    await backend.enqueue("q", [{ data: bytes("b") }]);
    failures = Infinity;
    let errors = 0;
    const other = startWorker(shaky, "q", () => {}, {
      ...FAST,
      leaseMs: 60_000_000,
      onEvent: ({ type }) => void (/^(error|unsettled)$/.test(type) && errors++),
    });
    await until(() => other.held() === 1);
    assert.deepEqual(await backend.status("q"), { pending: 0, processing: 1 });
    assert.equal(await backend.complete(["q"]), false);
    assert.equal(other.metrics.processed, 0);
    failures = 0;
    await other.stop();
    assert.equal(await backend.complete(["q"]), true);
    assert.equal(errors, 0);
  });

  test("a lost lease aborts the handler, and nothing is settled for the one who has it now", async () => {
    const backend = await filled("a");
    const events: string[] = [];
    let aborted = false;
    const worker = startWorker(
      backend,
      "q",
      (_, { signal }) =>
        new Promise((resolve) =>
          signal.addEventListener("abort", () => {
            aborted = true;
            resolve();
          })
        ),
      { ...FAST, leaseMs: 60, onEvent: ({ type }) => events.push(type) },
    );
    await until(() => worker.held() === 1);
    await backend.clear("q");
    await until(() => events.includes("lost"));
    assert.ok(aborted);
    assert.equal(worker.metrics.processed, 0);
    await worker.stop();
  });

  test("leases are renewed while a handler runs longer than they last", async () => {
    const backend = await filled("slow");
    let renewals = 0;
    const counting: QueueBackend = {
      ...backend,
      renew: async (...args) => {
        renewals++;
        const outcomes = await backend.renew(...args);
        assert.deepEqual(outcomes, ["done"]);
        return outcomes;
      },
    };
    let finish = () => {};
    const worker = startWorker(
      counting,
      "q",
      () => new Promise<void>((resolve) => finish = resolve),
      {
        ...FAST,
        leaseMs: 300,
      },
    );
    await until(() => worker.held() === 1);
    // What can't be watched on a busy machine is that no lease runs out; that each is renewed can.
    const [first] = await backend.messages("q");
    assert.equal(first!.state, "processing");
    const before = renewals;
    await until(() => renewals >= before + 6); // Twice as long as a lease.
    assert.deepEqual(await backend.recover("q", { staleMs: 0 }), []);
    finish();
    await worker.stop();
    assert.equal(worker.metrics.processed, 1);
  });

  test("what a wedged worker holds is taken over while it lives, by one that runs already", async () => {
    const backend = await filled();
    const events: WorkerEvent[] = [];
    const worker = startWorker(backend, "q", () => {}, {
      ...FAST,
      leaseMs: 50,
      onEvent: (event) => events.push(event),
    });
    // Its own recovery at the start is over, and nothing was to be taken back then.
    await backend.enqueue("q", [{ data: bytes("first") }]);
    await until(() => worker.metrics.processed === 1);
    let wedged: Delivery[] = [];
    await until(async () => {
      // It lives (it is this process), took a message and doesn't come back to renew it.
      await backend.enqueue("q", [{ data: bytes("second") }]);
      wedged = await backend.dequeue("q", { owner: workerOwner(), leaseMs: 30 });
      return wedged.length === 1;
    });
    await until(() => worker.metrics.recovered_count === 1);
    await until(async () => await backend.complete(["q"]));
    const taken = events.flatMap((event) => event.type === "recovered" ? [event.recovered] : []);
    assert.deepEqual(taken.map(({ id, why }) => [id, why]), [[wedged[0]!.id, "lease-expired"]]);
    assert.deepEqual(await backend.ack("q", wedged), ["stale"]);
    await worker.stop();
  });

  test("stop lets handlers finish, takes nothing new and leaves nothing half done", async () => {
    const backend = await filled("a", "b", "c");
    let release = () => {};
    const gate = new Promise<void>((resolve) => release = resolve);
    const worker = startWorker(backend, "q", () => gate, { ...FAST, concurrency: 2 });
    await until(() => worker.held() === 2);
    const stopped = worker.stop();
    release();
    await stopped;
    assert.equal(worker.metrics.processed, 2);
    assert.deepEqual(await backend.status("q"), { pending: 1, processing: 0 });
  });

  test("handlers that outlast the grace are aborted; their messages return untried, in order", async () => {
    const backend = await filled("a", "b");
    const worker = startWorker(
      backend,
      "q",
      (_, { signal }) =>
        new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
      FAST,
    );
    await until(() => worker.held() === 1);
    await worker.stop(1);
    assert.deepEqual(await backend.status("q"), { pending: 2, processing: 0 });
    const out = await backend.dequeue("q", { owner: workerOwner(), leaseMs: 1000, count: 2 });
    assert.deepEqual(out.map(({ data, attempts }) => [text(data), attempts]), [["a", 0], ["b", 0]]);
  });

  test("stopping in a backoff puts the message back at once, counted", async () => {
    const backend = await filled("a");
    const events: string[] = [];
    const worker = startWorker(backend, "q", () => {
      throw new Error("no");
    }, {
      ...FAST,
      backoff: { baseMs: 1e9, maxMs: 1e9 },
      onEvent: ({ type }) => events.push(type),
    });
    await until(() => events.includes("requeued"));
    assert.deepEqual(await backend.status("q"), { pending: 0, processing: 1 });
    await worker.stop();
    const [again] = await backend.dequeue("q", { owner: workerOwner(), leaseMs: 1000 });
    assert.equal(again!.attempts, 1);
  });

  test("a backend that is away for a while is waited for; one that is broken ends the worker", async () => {
    const backend = await filled("a");
    let away = 3;
    const flaky: QueueBackend = {
      ...backend,
      settleAndDequeue: (...args) =>
        away-- > 0
          ? Promise.reject(new AgentqError("backend-unreachable", "down"))
          : backend.settleAndDequeue(...args),
    };
    const events: string[] = [];
    const onEvent = ({ type }: WorkerEvent) => void events.push(type);
    const worker = startWorker(flaky, "q", () => {}, { ...FAST, untilEmpty: true, onEvent });
    await worker.done;
    assert.equal(worker.metrics.processed, 1);
    // Each failed call is counted; that it goes and that it is back is told once.
    assert.equal(worker.metrics.error_count, 3);
    assert.deepEqual(events, ["away", "back", "started", "acked"]);
    const broken: QueueBackend = {
      ...backend,
      settleAndDequeue: () => Promise.reject(new AgentqError("backend-corrupt", "broken")),
    };
    await assert.rejects(
      startWorker(broken, "q", () => {}, FAST).done,
      (error: unknown) => error instanceof AgentqError && error.code === "backend-corrupt",
    );
  });
});

describe("commandHandler()", () => {
  const context = { signal: new AbortController().signal, attempt: 2 };
  const message = (data: string | Uint8Array) => ({
    id: "m-1",
    data: typeof data === "string" ? bytes(data) : data,
    lease: "",
    attempts: 1,
  });
  test("gives the payload on standard input and says how it failed", async () => {
    let output = "";
    const run = (...argv: string[]) =>
      commandHandler("team/q", argv, { onOutput: (chunk) => void (output += text(chunk)) });
    await run(
      "sh",
      "-c",
      'cat; echo " $AGENTQ_QUEUE $AGENTQ_MESSAGE_ID $AGENTQ_ATTEMPT $1"',
      "x",
      "it's",
    )(
      message("payload"),
      context,
    );
    assert.equal(output, "payload team/q m-1 2 it's\n");
    await assert.rejects(
      async () => await run("sh", "-c", "echo why >&2; exit 3")(message(""), context),
      {
        message: "exit status 3: why",
      },
    );
    await assert.rejects(async () => await run("sh", "-c", "kill -9 $$")(message(""), context), {
      message: "ended by SIGKILL",
    });
    // A program that doesn't read its input is no error.
    await run("true")(message(new Uint8Array(1 << 20)), context);
  });

  test("kills what a program leaves running, but for what has a session of its own", async () => {
    let output = "";
    const script = "nohup sleep 600 >/dev/null 2>&1 </dev/null & echo $!; " +
      "setsid sh -c 'sleep 600 >/dev/null 2>&1 </dev/null & echo $!'";
    await commandHandler("q", ["sh", "-c", script], {
      onOutput: (chunk) => void (output += text(chunk)),
    })(message(""), context);
    const [ours, own] = output.trim().split("\n").map(Number) as [number, number];
    assert.ok(ours > 1 && own > 1, output);
    // Where nobody reaps it, it stays a zombie.
    const runs = (pid: number) => {
      try {
        return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
      } catch {
        return false;
      }
    };
    try {
      await until(() => !runs(ours));
      assert.ok(runs(own));
    } finally {
      process.kill(own, "SIGKILL");
    }
  });

  test("kills a program that runs too long, and refuses one that isn't there", async () => {
    const slow = commandHandler("q", ["sleep", "600"], { timeoutMs: 50 });
    await assert.rejects(async () => await slow(message(""), context), {
      message: "killed after 0.05 s",
    });
    for (const argv of [["no-such-program-anywhere"], ["/etc/passwd"], ["/"], [""], []]) {
      assert.throws(
        () => commandHandler("q", argv),
        (error: unknown) => error instanceof AgentqError && error.code === "command-not-started",
      );
    }
  });
});

describe("a program that can't be run", () => {
  const script = (first: string, mode = 0o755) => {
    const file = join(tempDir(), "handle.sh");
    writeFileSync(file, `${first}\nexit 0\n`);
    chmodSync(file, mode);
    return file;
  };
  const refused = (program: string, words: RegExp) =>
    assert.throws(() => commandHandler("q", [program]), {
      code: "command-not-started",
      message: words,
    });

  test("is refused before a message is taken, each with its reason", () => {
    refused("/no/such", /there is no program "\/no\/such"/);
    refused("/etc/passwd", /"\/etc\/passwd" is there, but can't be executed/);
    refused(script("#!/bin/sh", 0o644), /handle\.sh" is there, but can't be executed/);
    refused("/", /is a directory, not a program/);
    refused(script("#!/no/interp"), /there is no interpreter "\/no\/interp"/);
    refused(script("#! /no/interp -x"), /there is no interpreter "\/no\/interp"/);
    refused(script("#!/bin/sh\r"), /there is no interpreter "\/bin\/sh\\r"/);
    refused(script(`#!${script("#!/no/interp")}`), /there is no interpreter "\/no\/interp"/);
    refused(script("#!/usr/bin/env no-such-interp"), /there is no interpreter "no-such-interp"/);
    refused(script("#!/usr/bin/env -S no-such-interp -x"), /no interpreter "no-such-interp"/);
    for (const first of ["#!/bin/sh", "#! /usr/bin/env sh", "#!/usr/bin/env -S sh -e", "true"]) {
      commandHandler("q", [script(first)]);
    }
  });

  test("any more ends the worker and costs no message an attempt", async () => {
    const backend = await filled("a", "b", "c");
    const program = script("#!/bin/sh");
    const handler = commandHandler("q", [program]);
    rmSync(program);
    const worker = startWorker(backend, "q", handler, { ...FAST, maxAttempts: 1, concurrency: 2 });
    await assert.rejects(worker.done, { code: "command-not-started" });
    assert.deepEqual(await backend.failed.list("q"), []);
    const left = await backend.dequeue("q", { owner: workerOwner(), leaseMs: 1000, count: 5 });
    assert.deepEqual(left.map(({ data, attempts }) => [text(data), attempts]), [
      ["a", 0],
      ["b", 0],
      ["c", 0],
    ]);
  });

  test("for now, since it is being written, costs no message an attempt and is waited for", async () => {
    const backend = await filled("a", "b", "c");
    const program = join(tempDir(), "handle");
    copyFileSync("/bin/true", program);
    chmodSync(program, 0o755);
    const writer = openSync(program, "r+");
    let errors = 0;
    const worker = startWorker(backend, "q", commandHandler("q", [program]), {
      ...FAST,
      maxAttempts: 1,
      concurrency: 2,
      untilEmpty: true,
      onEvent: (event) => {
        if (event.type !== "error") return;
        assert.ok(event.error instanceof AgentqError, String(event.error));
        assert.equal(event.error.code, "command-not-started");
        assert.equal(event.error.details?.errno, "ETXTBSY");
        if (++errors === 3) closeSync(writer);
      },
    });
    await worker.done;
    assert.equal(worker.metrics.processed, 3);
    assert.equal(worker.metrics.failed_count + worker.metrics.requeue_count, 0);
    assert.ok(errors >= 3);
  });

  test("since it is empty, handles no message and is waited for", async () => {
    const backend = await filled("a", "b");
    const program = join(tempDir(), "handle");
    const seen = join(tempDir(), "seen");
    writeFileSync(program, "", { mode: 0o755 });
    assert.throws(() => commandHandler("q", [program]), (error) => {
      assert.ok(error instanceof AgentqError, String(error));
      assert.deepEqual([error.code, error.details?.program], [
        "command-not-started",
        `"${program}"`,
      ]);
      return true;
    });
    const whole = `#!/bin/sh\ncat >>${seen}\n`;
    writeFileSync(program, whole);
    const handler = commandHandler("q", [program]);
    writeFileSync(program, "");
    let errors = 0;
    const worker = startWorker(backend, "q", handler, {
      ...FAST,
      maxAttempts: 1,
      untilEmpty: true,
      onEvent: (event) => {
        if (event.type === "error" && ++errors === 2) writeFileSync(program, whole);
      },
    });
    await worker.done;
    assert.equal(worker.metrics.processed, 2);
    assert.equal(readFileSync(seen, "utf8"), "ab");
    assert.ok(errors >= 2);
  });

  test("is looked for as env does, or not at all where that isn't plain", async () => {
    const dir = tempDir();
    const own = join(dir, "own-sh");
    copyFileSync("/bin/sh", own);
    chmodSync(own, 0o755);
    const seen = join(dir, "seen");
    const before = process.env.PATH;
    const scripts = [
      `#!/usr/bin/env -S PATH=${dir}:/usr/bin:/bin own-sh`,
      '#!/usr/bin/env -S GREETING="hello world" sh',
      "#!/usr/bin/env -S GREETING='hello world' 'sh' -e",
      "#!/usr/bin/env -S sh\\_-e",
      "#!/usr/bin/env -S ${OWN}/own-sh",
    ];
    try {
      process.env.OWN = dir;
      for (const [i, line] of scripts.entries()) {
        const program = join(dir, `s${i}`);
        writeFileSync(program, `${line}\necho ${i} >>${seen}\n`, { mode: 0o755 });
        const backend = await filled("a");
        const handler = commandHandler("q", [program]);
        await startWorker(backend, "q", handler, { ...FAST, maxAttempts: 1, untilEmpty: true })
          .done;
        assert.deepEqual(await backend.failed.list("q"), [], line);
      }
      // Without a PATH it is where the system looks then. (Not every runtime starts a program so.)
      const program = join(dir, "plain");
      writeFileSync(program, "#!/usr/bin/env sh\n:\n", { mode: 0o755 });
      delete process.env.PATH;
      commandHandler("q", [program]);
      commandHandler("q", ["sh"]);
      assert.throws(() => commandHandler("q", ["nosuch"]), { code: "command-not-started" });
    } finally {
      process.env.PATH = before;
      delete process.env.OWN;
    }
    assert.equal(readFileSync(seen, "utf8"), "0\n1\n2\n3\n4\n");
  });

  test("nor its interpreter: no shell runs the script in its place", async () => {
    const dir = tempDir();
    const path = (name: string) => join(dir, name);
    const elf = readFileSync("/bin/true");
    const other = Buffer.from(elf);
    other.writeUInt16LE(process.arch === "x64" ? 183 : 62, 18);
    const seen = path("seen");
    const broken: readonly (readonly [string, string | Uint8Array, string])[] = [
      ["other", other, "ENOEXEC"],
      ["cut", elf.subarray(0, 300), "ENOEXEC"],
      ["junk", "\x7fELFgarbage", "ENOEXEC"],
      ["text", "echo interpreted by nobody\n", "ENOEXEC"],
      ["empty", "", "ETXTBSY"],
    ];
    for (const [name, content, errno] of broken) {
      writeFileSync(path(name), content, { mode: 0o755 });
      const lines = [`#!${path(name)}`];
      if (name !== "text") lines.push(`#!/usr/bin/env ${path(name)}`);
      for (const line of lines) {
        const program = path(`by-${name}`);
        writeFileSync(program, `${line}\ntouch ${seen}\n`, { mode: 0o755 });
        const backend = await filled("a", "b");
        const why = { code: "command-not-started" };
        assert.throws(() => commandHandler("q", [program]), why);
        // It was whole when the worker began.
        writeFileSync(program, "#!/bin/sh\nexit 1\n");
        const handler = commandHandler("q", [program]);
        writeFileSync(program, `${line}\ntouch ${seen}\n`);
        let told = "";
        const worker = startWorker(backend, "q", handler, {
          ...FAST,
          maxAttempts: 1,
          onEvent: (event) => {
            if (event.type !== "error" || told !== "") return;
            told = String((event.error as AgentqError).details?.errno);
            if (errno === "ETXTBSY") void worker.stop(0);
          },
        });
        await worker.done.catch((error) => told ||= String(error.details?.errno));
        assert.equal(told, errno, `${name}: ${line}`);
        assert.deepEqual(await backend.failed.list("q"), []);
        assert.deepEqual(await backend.status("q"), { pending: 2, processing: 0 });
      }
    }
    assert.equal(existsSync(seen), false);
  });

  test("on this machine ends the worker and costs no message an attempt", async () => {
    const backend = await filled("a", "b");
    const program = join(tempDir(), "handle");
    const elf = readFileSync("/bin/true");
    elf.writeUInt16LE(0xffff, 18); // An architecture that is none.
    writeFileSync(program, elf, { mode: 0o755 });
    const worker = startWorker(backend, "q", commandHandler("q", [program]), {
      ...FAST,
      maxAttempts: 1,
      concurrency: 2,
    });
    await assert.rejects(worker.done, (error) => {
      assert.ok(error instanceof AgentqError, String(error));
      assert.equal(error.code, "command-not-started");
      assert.equal(error.details?.errno, "ENOEXEC");
      assert.ok(error.message.includes(program), error.message);
      return true;
    });
    assert.deepEqual(await backend.status("q"), { pending: 2, processing: 0 });
    assert.deepEqual(await backend.failed.list("q"), []);
  });

  test("is known by the words of several shells, not by those of a program it ran", () => {
    const file = script("#!/bin/sh");
    for (
      const said of [
        `sh: 1: exec: ${file}: Text file busy\n`,
        `out\nsh: line 1: ${file}: Text file busy\nsh: line 1: exec: ${file}: cannot execute: x\n`,
        `sh: exec: line 0: ${file}: Text file busy`,
        `sh: ${file}: Text file busy\nsh: ${file}: Success\n`,
      ]
    ) assert.equal(whyNotRun(file, "/", said)?.code, "ETXTBSY", said);
    const other = whyNotRun(file, "/", `sh: 1: exec: ${file}: Input/output error\n`);
    assert.deepEqual(other, { message: "Input/output error" });
    for (
      const said of [
        "sh: 1: exec: ./inner: Text file busy\n",
        `${file}: 1: exec: ${file}: Text file busy\n`,
        "Text file busy\n",
        "",
      ]
    ) assert.equal(whyNotRun(file, "/", said), null, said);
  });

  test("is told from one that exits with the shell's own status", async () => {
    const handler = commandHandler("q", ["sh", "-c", "exit 127"]);
    const context = { signal: new AbortController().signal, attempt: 1 };
    const message = { id: "m", data: bytes(""), lease: "", attempts: 0 };
    await assert.rejects(async () => await handler(message, context), {
      message: "exit status 127",
    });
  });
});

describe("namedQueue()", () => {
  test("enqueues through its hook, handles, and waits by the backend alone", async () => {
    const backend = memoryBackend();
    const seen: string[] = [];
    const queue = namedQueue(backend, "jobs", {
      onEnqueue: (data) => {
        if (data === "refused") throw new Error("refused by the hook");
        return typeof data === "string" ? data.toUpperCase() : data;
      },
      handler: ({ data }) => void seen.push(text(data)),
      worker: FAST,
    });
    await queue.enqueue("a");
    await queue.enqueue({ json: { n: 1 } });
    await queue.enqueue(bytes("raw"), { id: "given" });
    await assert.rejects(queue.enqueue("refused"), { message: "refused by the hook" });
    await assert.rejects(
      queue.enqueue({ json: 1 }, { id: "no/good" }),
      (error: unknown) => error instanceof AgentqError && error.code === "message-id-invalid",
    );
    assert.deepEqual(await queue.getStatus(), {
      pending: 3,
      processing: 0,
      unacked: 3,
      complete: false,
    });
    queue.start();
    await queue.waitComplete();
    assert.deepEqual(seen, ["A", '{"n":1}', "raw"]);
    await queue.stop();
    assert.equal(queue.metrics.processed, 3);
    assert.equal((await queue.getStatus()).complete, true);
  });

  test("without a handler it is dequeued and acked by hand", async () => {
    const queue = namedQueue(memoryBackend(), "jobs");
    assert.equal(await queue.dequeue(), null);
    await queue.enqueue("a");
    const message = (await queue.dequeue())!;
    await queue.ack(message);
    await assert.rejects(
      queue.ack(message),
      (error: unknown) => error instanceof AgentqError && error.code === "stale-delivery",
    );
    assert.throws(() => queue.start(), TypeError);
    await assert.rejects(
      queue.enqueue("\ud800"),
      (error: unknown) => error instanceof AgentqError && error.code === "payload-invalid",
    );
  });
});

describe("completion", () => {
  test("many queues are complete only together, from one snapshot a backend", async () => {
    const [one, two] = [memoryBackend(), memoryBackend()];
    let snapshots = 0;
    const counting: QueueBackend = {
      ...one,
      complete: (queues) => {
        snapshots++;
        return one.complete(queues);
      },
    };
    const queues = [namedQueue(counting, "a"), namedQueue(counting, "b"), namedQueue(two, "c")];
    for (const queue of queues) await queue.getStatus();
    assert.equal(await isAllComplete(queues), true);
    assert.equal(snapshots, 1);
    await queues[2]!.enqueue("x");
    assert.equal(await isAllComplete(queues), false);
    await queues[2]!.dequeue();
    assert.equal(await isAllComplete(queues), false);
  });

  test("a wait in vain names what is left; an aborted one stops", async () => {
    const backend = await filled("a");
    await assert.rejects(
      waitComplete(backend, ["q"], { timeoutMs: 20 }),
      (error: unknown) =>
        error instanceof AgentqError && error.code === "wait-timeout" &&
        error.message.includes("1 pending, 0 processing"),
    );
    const abort = new AbortController();
    const waiting = waitComplete(backend, ["q"], { signal: abort.signal });
    abort.abort(new AgentqError("interrupted", "stopped"));
    await assert.rejects(waiting, { message: "stopped" });
  });

  test("a queue that clear emptied while workers held messages is complete, their acks stale", async () => {
    const backend = sqliteBackend(join(tempDir(), "q.db"), { create: true });
    await backend.create("q");
    await backend.enqueue("q", [{ data: bytes("a") }]);
    let finish = () => {};
    const worker = startWorker(
      backend,
      "q",
      () => new Promise<void>((resolve) => finish = resolve),
      FAST,
    );
    await until(() => worker.held() === 1);
    await backend.clear("q");
    await waitComplete(backend, ["q"]);
    finish();
    await worker.stop();
    assert.equal(worker.metrics.stale_count, 1);
    assert.equal(worker.metrics.processed, 0);
    await backend.close();
  });
});

describe("metrics", () => {
  test("are Prometheus text with escaped names", () => {
    const output = prometheusText([
      {
        queue: 'a"\\\n',
        counts: { pending: 3, processing: 2 },
        workers: { ...emptyMetrics(), processed: 7 },
      },
    ]);
    assert.ok(output.includes('agentq_queue_pending{queue="a\\"\\\\\\n"} 3\n'));
    assert.ok(output.includes('agentq_queue_unacked{queue="a\\"\\\\\\n"} 5\n'));
    assert.ok(output.includes("# TYPE agentq_queue_processed_total counter\n"));
    for (const line of output.trimEnd().split("\n")) {
      assert.match(
        line,
        /^(# (HELP|TYPE) agentq_queue_\w+ .+|agentq_queue_\w+\{queue=".*"\} \d+)$/,
      );
    }
  });

  test("a new worker goes on in the file of one that is gone; the sum is over all", () => {
    const directory = metricsDirectory(tempDir(), "sqlite:q.db", "q");
    const gone = workerOwner().split("~").map((part, i) => i === 2 ? "1" : part).join("~");
    openMetricsFile(directory, gone).save({ ...emptyMetrics(), processed: 5 });
    openMetricsFile(directory, workerOwner()).save({ ...emptyMetrics(), processed: 1 });
    openMetricsFile(directory, workerOwner()).save({ ...emptyMetrics(), processed: 10 });
    assert.equal(readdirSync(directory).length, 2);
    assert.equal(readAllMetrics(directory).processed, 16);
    assert.deepEqual(readAllMetrics(join(directory, "none")), emptyMetrics());
  });
});

test("backoffMs() doubles to a limit, never below half", () => {
  const backoff = { baseMs: 100, maxMs: 1000 };
  assert.deepEqual([1, 2, 3, 4, 5, 99].map((n) => backoffMs(n, backoff, 1)), [
    100,
    200,
    400,
    800,
    1000,
    1000,
  ]);
  assert.equal(backoffMs(1, backoff, 0), 50);
});
