/** What Redis can do to its clients: each a typed error, no hang, and nothing lost that was acknowledged. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import process from "node:process";
import { describe, test } from "node:test";
import { AgentqError } from "../../src/errors.ts";
import { parseRedisUrl } from "../../src/queuefs/backends/redis/address.ts";
import { redisBackend } from "../../src/queuefs/backends/redis/backend.ts";
import type { Delivery } from "../../src/queuefs/contract.ts";
import { workerOwner } from "../../src/queuefs/owner.ts";
import { startWorker } from "../../src/queuefs/worker.ts";
import { tempDir } from "../helpers/git.ts";
import { bytes, freePort, startRedis, startSentinels, until } from "./helpers/redis.ts";

const owner = workerOwner();
const take = { owner, leaseMs: 60_000 };
const open = (url: string, env: Record<string, string> = {}) =>
  redisBackend(parseRedisUrl(url, env));
const receipts = (all: Delivery[]) => all.map(({ id, lease }) => ({ id, lease }));
const LONG = { timeout: 120_000 };

async function code(work: Promise<unknown>): Promise<string> {
  try {
    await work;
  } catch (error) {
    assert.ok(error instanceof AgentqError, String(error));
    return error.code;
  }
  return "none";
}

describe("a Redis server that misbehaves", () => {
  test("killed and restarted under load: what was acknowledged is there, once", LONG, async () => {
    const server = await startRedis();
    const backend = await open(`redis://127.0.0.1:${server.port}?timeout=3000`);
    await backend.create("q");
    const accepted = new Set<string>();
    const unknown = new Set<string>();
    const acked = new Set<string>();
    const maybeAcked = new Set<string>();
    let n = 0;
    let running = true;
    const producer = async () => {
      while (running) {
        const name = `m${n++}`;
        try {
          await backend.enqueue("q", [{ data: bytes(name) }]);
          accepted.add(name);
        } catch (error) {
          assert.ok(error instanceof AgentqError);
          assert.match(error.code, /^backend-(unreachable|outcome-unknown)$/);
          unknown.add(name);
        }
      }
    };
    const consumer = async () => {
      while (running) {
        let name = "";
        try {
          const [message] = await backend.dequeue("q", take);
          if (message === undefined) continue;
          name = Buffer.from(message.data).toString();
          assert.ok(!acked.has(name), `${name} came back after its ack was confirmed`);
          const [outcome] = await backend.ack("q", receipts([message]));
          if (outcome === "done") acked.add(name);
        } catch (error) {
          if (!(error instanceof AgentqError)) throw error;
          if (name !== "") maybeAcked.add(name);
        }
      }
    };
    const all = [producer(), producer(), consumer(), consumer()];
    for (let i = 0; i < 3; i++) {
      const before = acked.size;
      await until(() => acked.size > before + 50);
      await server.kill();
      await server.start();
    }
    running = false;
    await Promise.all(all);
    const left = new Set(
      (await backend.messages("q")).map(({ data }) => Buffer.from(data!).toString()),
    );
    for (const name of accepted) {
      assert.ok(left.has(name) || acked.has(name) || maybeAcked.has(name), `${name} is lost`);
    }
    for (const name of acked) assert.ok(!left.has(name), `${name} is there after its ack`);
    for (const name of left) assert.ok(accepted.has(name) || unknown.has(name));
    await backend.close();
    await server.kill();
  });

  test(
    "away under a worker is told once when it goes, and once when it is back",
    LONG,
    async () => {
      const server = await startRedis();
      const backend = await open(`redis://127.0.0.1:${server.port}?timeout=300`);
      await backend.create("q");
      const texts = ["a", "b", "c", "d"];
      await backend.enqueue("q", texts.map((each) => ({ data: bytes(each) })));
      const told: string[] = [];
      const handled = new Set<string>();
      const gate = Promise.withResolvers<void>();
      const worker = startWorker(backend, "q", async ({ data }) => {
        if (handled.size > 0) await gate.promise;
        handled.add(Buffer.from(data).toString());
      }, {
        // Long leases: what was taken unheard isn't there for others, as few calls as can be.
        leaseMs: 60_000,
        untilEmpty: true,
        onEvent: ({ type }) => void (/^(away|back|error|unsettled)$/.test(type) && told.push(type)),
      });
      await until(() => worker.metrics.processed === 1);
      await server.kill();
      gate.resolve(); // Its ack can't be made now.
      await until(() => worker.metrics.error_count >= 2);
      assert.deepEqual(told, ["away"]);
      await server.start();
      await until(() => told.length > 1);
      await worker.done;
      assert.deepEqual(told, ["away", "back"]);
      assert.deepEqual([...handled], texts);
      await backend.close();
      await server.kill();
    },
  );

  test("SCRIPT FLUSH at any time is not noticed", LONG, async () => {
    const server = await startRedis();
    const backend = await open(`redis://127.0.0.1:${server.port}`);
    await backend.create("q");
    for (let i = 0; i < 5; i++) {
      server.cli("script", "flush");
      await backend.enqueue("q", [{ data: bytes("x") }]);
      server.cli("script", "flush");
      const out = await backend.dequeue("q", take);
      server.cli("script", "flush");
      assert.deepEqual(await backend.ack("q", receipts(out)), ["done"]);
      await backend.enqueue("q", [{ data: bytes("y") }]);
      server.cli("script", "flush");
      const [y] = (await backend.settleAndDequeue("q", [], take)).deliveries;
      const reason = "binary \u0000 and more";
      const endings = [{ how: "fail", receipt: receipts([y!])[0]!, reason }] as const;
      server.cli("script", "flush");
      assert.deepEqual((await backend.settleAndDequeue("q", endings, take)).settlements, ["done"]);
      assert.equal((await backend.failed.list("q"))[i]!.reason, reason);
    }
    await backend.close();
    await server.kill();
  });

  test(
    "out of memory: enqueue is refused and changes nothing, draining goes on",
    LONG,
    async () => {
      const server = await startRedis();
      const backend = await open(`redis://127.0.0.1:${server.port}`);
      await backend.create("q");
      await backend.enqueue("q", [{ data: bytes("a") }, { data: bytes("b") }]);
      server.cli("config", "set", "maxmemory", "1");
      assert.equal(await code(backend.enqueue("q", [{ data: bytes("c") }])), "backend-full");
      assert.equal(
        await code(backend.enqueue("q", [{ id: "x", data: bytes("c") }])),
        "backend-full",
      );
      assert.deepEqual(await backend.status("q"), { pending: 2, processing: 0 });
      // A step that begins by freeing something goes on; one that begins by adding is refused, all of it.
      const out = await backend.dequeue("q", take);
      const receipt = receipts(out)[0]!;
      const fail = { how: "fail", receipt, reason: "x" } as const;
      assert.equal(await code(backend.settleAndDequeue("q", [fail], take)), "backend-full");
      assert.deepEqual(await backend.status("q"), { pending: 1, processing: 1 });
      const ending = { how: "ack", receipt } as const;
      const turn = await backend.settleAndDequeue("q", [ending], take);
      assert.deepEqual(turn.settlements, ["done"]);
      assert.equal(turn.deliveries.length, 1);
      assert.deepEqual(await backend.ack("q", receipts(turn.deliveries)), ["done"]);
      server.cli("config", "set", "maxmemory", "0");
      await backend.enqueue("q", [{ data: bytes("c") }]);
      assert.deepEqual(await backend.status("q"), { pending: 1, processing: 0 });
      await backend.close();
      await server.kill();
    },
  );

  test("a disk that can't be written to is backend-full", LONG, async () => {
    const server = await startRedis();
    const backend = await open(`redis://127.0.0.1:${server.port}`);
    await backend.create("q");
    // What a failed snapshot leads to: its file can't be put in place, and writes get MISCONF.
    mkdirSync(join(server.dir, "dump.rdb"));
    server.cli("config", "set", "save", "1 1");
    server.cli("set", "x", "1");
    server.cli("bgsave");
    await until(() => server.cli("info", "persistence").includes("rdb_last_bgsave_status:err"));
    assert.equal(await code(backend.enqueue("q", [{ data: bytes("c") }])), "backend-full");
    await backend.close();
    await server.kill();
  });

  test(
    "wrong and missing passwords, and a user who may not, are backend-denied",
    LONG,
    async () => {
      const server = await startRedis({
        config: ["requirepass right"],
        cliArgs: ["-a", "right", "--no-auth-warning"],
      });
      const host = `127.0.0.1:${server.port}`;
      for (
        const url of [`redis://${host}`, `redis://:wrong@${host}`, `redis://nobody:right@${host}`]
      ) {
        assert.equal(await code(open(url)), "backend-denied", url);
      }
      const error = await open(`redis://:s3cr3t-wrong@${host}`).catch((error) => error);
      assert.ok(!JSON.stringify(error.toJSON()).includes("s3cr3t"));
      const backend = await open(`redis://${host}`, { AGENTQ_REDIS_PASSWORD: "right" });
      await backend.create("q");
      server.cli("acl", "setuser", "reader", "on", ">pw", "~*", "+@all", "-rpush");
      const reader = await open(`redis://reader:pw@${host}`);
      assert.equal(await code(reader.enqueue("q", [{ data: bytes("x") }])), "backend-denied");
      assert.deepEqual(await reader.status("q"), { pending: 0, processing: 0 });
      // Everything a worker needs, under its own prefix only.
      server.cli("acl", "setuser", "worker", "on", ">pw", "~{default}:ov:queue:*", "+@all");
      const worker = await open(`redis://worker:pw@${host}`);
      await worker.enqueue("q", [{ data: bytes("x") }]);
      assert.deepEqual(await worker.ack("q", receipts(await worker.dequeue("q", take))), ["done"]);
      for (const each of [backend, reader, worker]) await each.close();
      await server.kill();
    },
  );

  test("sentinels that ask for a password say so, of theirs", LONG, async () => {
    const sentinel = await startRedis({
      sentinel: true,
      config: ["requirepass right"],
      cliArgs: ["-a", "right", "--no-auth-warning"],
    });
    const url = `redis://127.0.0.1:${sentinel.port}?sentinel=m&timeout=600000`;
    for (
      const env of [{}, { AGENTQ_REDIS_SENTINEL_PASSWORD: "wrong" }] as Record<string, string>[]
    ) {
      await assert.rejects(open(url, env), { code: "backend-denied", hint: /SENTINEL_PASSWORD/ });
    }
    const known = open(url, { AGENTQ_REDIS_SENTINEL_PASSWORD: "right" });
    await assert.rejects(known, { code: "config-invalid", message: /no master "m"/ });
    await sentinel.kill();
  });

  test("nothing listens, a host that is none, and a server that never answers", LONG, async () => {
    const port = await freePort();
    assert.equal(await code(open(`redis://127.0.0.1:${port}?timeout=1000`)), "backend-unreachable");
    assert.equal(
      await code(open(`redis://no-such-host.invalid:${port}?timeout=1000`)),
      "backend-unreachable",
    );
    const mute = createServer((socket) => void socket.on("error", () => {}));
    await new Promise<void>((resolve) => mute.listen(port, "127.0.0.1", resolve));
    assert.equal(await code(open(`redis://127.0.0.1:${port}?timeout=300`)), "backend-unreachable");
    mute.close();
  });

  test("a script that runs for long is busy, missing replicas are no full disk", LONG, async () => {
    const server = await startRedis({ config: ["lua-time-limit 10"] });
    const backend = await open(`redis://127.0.0.1:${server.port}?timeout=300`);
    await backend.create("q");
    const args = ["-p", String(server.port), "eval", "while true do end", "0"];
    // An answer that is late says what helps.
    server.cli("client", "pause", "1000");
    const late = backend.enqueue("q", [{ data: bytes("x") }]);
    await assert.rejects(late, { code: "backend-outcome-unknown", hint: /timeout=.*smaller/ });
    server.cli("client", "unpause");
    const endless = spawn("redis-cli", args, { stdio: "ignore" });
    await until(() => server.cli("ping").startsWith("BUSY"));
    const busy = backend.enqueue("q", [{ data: bytes("x") }]);
    await assert.rejects(busy, { code: "backend-busy", hint: /script/i, retryable: true });
    // Where the connection is made meanwhile, as every command does.
    const opened = open(`redis://127.0.0.1:${server.port}?timeout=300`);
    await assert.rejects(opened, { code: "backend-busy", hint: /script/i, retryable: true });
    server.cli("script", "kill");
    await new Promise((resolve) => endless.once("exit", resolve));
    // The silent connection was given up: another one is made within a moment.
    await until(() => backend.status("q").then(() => true, () => false));
    server.cli("config", "set", "min-replicas-to-write", "1");
    const alone = backend.enqueue("q", [{ data: bytes("x") }]);
    await assert.rejects(alone, { code: "backend-unreachable", hint: /replicas/, retryable: true });
    await backend.close();
    await server.kill();
  });

  test("a password that the server doesn't ask for is told", LONG, async () => {
    const server = await startRedis();
    const told = async (url: string) => {
      const backend = await open(url);
      const warnings = await backend.warnings!();
      await backend.close();
      return warnings.join();
    };
    const host = `127.0.0.1:${server.port}`;
    assert.match(await told(`redis://:w@${host}`), /the server asks for none/);
    assert.match(await told(`redis://default:w@${host}`), /the server asks for none/);
    assert.equal(await told(`redis://${host}`), "");
    server.cli("acl", "setuser", "u", "on", ">w", "~*", "+@all");
    assert.equal(await told(`redis://u:w@${host}`), "");
    server.cli("acl", "setuser", "u", "-acl");
    assert.equal(await told(`redis://u:w@${host}`), "");
    await server.kill();
  });

  test("an address that asks for what isn't there is a mistake, at once", LONG, async () => {
    const server = await startRedis();
    const sentinel = await startRedis({ sentinel: true });
    const http = createHttpServer((_, answer) => answer.end("hello"));
    await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
    const { port } = http.address() as { port: number };
    const mistakes: [string, RegExp][] = [
      [`redis://127.0.0.1:${server.port}/99`, /no database of that number/],
      [`redis://127.0.0.1:${server.port}?cluster=1`, /is no node of a cluster/],
      [`redis://127.0.0.1:${server.port}?sentinel=m`, /is no sentinel/],
      [`redis://127.0.0.1:${sentinel.port}?sentinel=m`, /the sentinels know no master "m"/],
      [
        `redis://127.0.0.1:${sentinel.port},127.0.0.1:1?sentinel=m`,
        /the sentinels know no master "m"/,
      ],
      [`redis://127.0.0.1:${port}`, /doesn't speak the protocol of Redis/],
    ];
    for (const [url, words] of mistakes) {
      // Longer than the test may take: nothing here waits for the end of its time.
      const more = url.includes("?") ? "&" : "?";
      await assert.rejects(open(`${url}${more}timeout=600000`), (error) => {
        assert.ok(error instanceof AgentqError, String(error));
        assert.equal(error.code, "config-invalid", `${url}: ${error.message}`);
        assert.equal(error.retryable, false);
        assert.match(error.message, words);
        assert.ok(!/report this/.test(error.message));
        return true;
      });
    }
    http.close();
    await assert.rejects(open(`redis://127.0.0.1:${sentinel.port}?cluster=1`), {
      code: "config-invalid",
      message: /is no node of a cluster/,
    });
    const backend = await open(`redis://127.0.0.1:${sentinel.port}`);
    for (
      const ask of [() => backend.create("q"), () => backend.list(), () => backend.status("q")]
    ) {
      await assert.rejects(ask, { code: "config-invalid", message: /it is a sentinel/ });
    }
    await backend.close();
    await sentinel.kill();
    await server.kill();
  });

  test(
    "a replica that takes no changes says so, at once, and answers what it can",
    LONG,
    async () => {
      const master = await startRedis({ config: ["repl-diskless-sync-delay 0"] });
      const replica = await startRedis({ config: [`replicaof 127.0.0.1 ${master.port}`] });
      await until(() => replica.cli("info", "replication").includes("master_link_status:up"));
      const first = await open(`redis://127.0.0.1:${master.port}`);
      await first.create("q");
      await first.enqueue("q", [{ data: bytes("a") }]);
      await until(() => replica.cli("llen", "{default}:ov:queue:q:pending") === "1");
      const backend = await open(`redis://127.0.0.1:${replica.port}?timeout=600000`);
      assert.deepEqual(await backend.status("q"), { pending: 1, processing: 0 });
      const changes = [
        () => backend.create("r"),
        () => backend.enqueue("q", [{ data: bytes("a") }]),
        () => backend.dequeue("q", take),
        () => backend.settleAndDequeue("q", [], take),
      ];
      for (const change of changes) {
        await assert.rejects(change, (error: unknown) => {
          assert.ok(error instanceof AgentqError, String(error));
          assert.equal(error.code, "backend-denied", error.message);
          assert.match(error.message, /it is a read-only replica/);
          // Workers wait for it to become the master.
          assert.equal(error.retryable, true);
          return true;
        });
      }
      // What is empty there needn't be empty at the master.
      await first.clear("q");
      await until(() => replica.cli("llen", "{default}:ov:queue:q:pending") === "0");
      for (const ask of [() => backend.status("q"), () => backend.complete(["q"])]) {
        await assert.rejects(ask, { code: "backend-denied", message: /it is a replica/ });
      }
      replica.cli("replicaof", "no", "one");
      assert.equal(await backend.complete(["q"]), true);
      await until(async () => await code(backend.enqueue("q", [{ data: bytes("a") }])) === "none");
      await backend.close();
      await first.close();
      await replica.kill();
      await master.kill();
    },
  );

  test(
    "whether queues are complete is one question, whose answer a replica can't give",
    LONG,
    async () => {
      const server = await startRedis();
      let sent = "";
      const proxy = createServer((socket) => {
        const there = connect(server.port, "127.0.0.1");
        socket.on("data", (data) => sent += data.toString("latin1"));
        for (const each of [socket, there]) each.on("error", () => {});
        socket.pipe(there).pipe(socket);
      });
      await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
      const { port } = proxy.address() as { port: number };
      const backend = await open(`redis://127.0.0.1:${port}`);
      await backend.create("q");
      const asks: [() => Promise<unknown>, unknown][] = [
        [() => backend.status("q"), { pending: 0, processing: 0 }],
        [() => backend.complete(["q"]), true],
      ];
      for (const [ask, answer] of asks) {
        await ask(); // The server knows the script.
        sent = "";
        assert.deepEqual(await ask(), answer);
        const commands = sent.match(/^\*\d+\r\n/gm);
        assert.equal(commands?.length, 1, sent);
      }
      // Users whose scripts may not ask for the role aren't told.
      server.cli("acl", "setuser", "plain", "on", ">pw", "~*", "+@all", "-info");
      const plain = await open(`redis://plain:pw@127.0.0.1:${server.port}`);
      assert.equal(await plain.complete(["q"]), true);
      assert.deepEqual(await plain.status("q"), { pending: 0, processing: 0 });
      await assert.rejects(plain.complete(["q", "none"]), { code: "queue-not-found" });
      for (const each of [plain, backend]) await each.close();
      proxy.close();
      await server.kill();
    },
  );

  test("a server that may evict messages is warned of", LONG, async () => {
    const server = await startRedis();
    const backend = await open(`redis://127.0.0.1:${server.port}`);
    const warnings = async (policy: string, limit: string) => {
      server.cli("config", "set", "maxmemory-policy", policy);
      server.cli("config", "set", "maxmemory", limit);
      return await backend.warnings!();
    };
    assert.deepEqual(await warnings("allkeys-lru", "0"), []);
    assert.deepEqual(await warnings("noeviction", "100mb"), []);
    assert.match(
      (await warnings("allkeys-lru", "100mb")).join(),
      /allkeys-lru.*set it to noeviction/,
    );
    server.cli("acl", "setuser", "plain", "on", ">pw", "~*", "+@all", "-info");
    const plain = await open(`redis://plain:pw@127.0.0.1:${server.port}`);
    assert.deepEqual(await plain.warnings!(), []);
    await plain.close();
    await backend.close();
    await server.kill();
  });

  test(
    "a server that is stopped in the middle: the caller hears within its time",
    LONG,
    async () => {
      const server = await startRedis();
      const backend = await open(`redis://127.0.0.1:${server.port}?timeout=500`);
      await backend.create("q");
      // The server knows the scripts.
      await backend.enqueue("q", [{ id: "x", data: bytes("x") }]);
      await backend.settleAndDequeue("q", [], take);
      await backend.clear("q");
      process.kill(server.pid(), "SIGSTOP");
      // One timer watches all that are under way, whenever each began.
      const codes: Promise<string>[] = [];
      for (let i = 0; i < 5; i++) {
        codes.push(code(backend.enqueue("q", [{ id: "x", data: bytes("x") }])));
        await new Promise((resolve) => setTimeout(resolve, 60));
      }
      assert.deepEqual(await Promise.all(codes), Array(5).fill("backend-outcome-unknown"));
      // The silent connection was given up, and there is no other: what comes now isn't sent.
      assert.equal(await code(backend.status("q")), "backend-unreachable");
      assert.equal(await code(backend.settleAndDequeue("q", [], take)), "backend-unreachable");
      process.kill(server.pid(), "SIGCONT");
      // It was executed after all: that is what unknown means. The same id again changes nothing.
      await until(async () => await code(backend.status("q")) === "none");
      await backend.enqueue("q", [{ id: "x", data: bytes("x") }]);
      assert.deepEqual(await backend.status("q"), { pending: 1, processing: 0 });
      await backend.close();
      await server.kill();
    },
  );

  test("TLS: the right authority works, a wrong or unknown one is refused", LONG, async () => {
    const dir = tempDir();
    const openssl = (...args: string[]) => {
      const run = spawnSync("openssl", args, { cwd: dir, encoding: "utf8" });
      assert.equal(run.status, 0, run.stderr);
    };
    const subject = (name: string) => ["-subj", `/CN=${name}`, "-days", "2"];
    for (const name of ["ca", "other"]) {
      openssl(
        ..."req -x509 -newkey rsa:2048 -nodes -addext basicConstraints=critical,CA:TRUE".split(" "),
        ...subject(name),
        "-keyout",
        `${name}.key`,
        "-out",
        `${name}.pem`,
      );
    }
    openssl(
      ..."req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=localhost".split(
        " ",
      ),
    );
    spawnSync("sh", ["-c", "echo subjectAltName=DNS:localhost > ext"], { cwd: dir });
    openssl(
      ..."x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out server.pem"
        .split(" "),
    );
    const tlsPort = await freePort();
    const server = await startRedis({
      config: [
        `tls-port ${tlsPort}`,
        `tls-cert-file ${dir}/server.pem`,
        `tls-key-file ${dir}/server.key`,
        `tls-ca-cert-file ${dir}/ca.pem`,
        "tls-auth-clients no",
      ],
    });
    const ca = `ca=${dir}/ca.pem`;
    const backend = await open(`rediss://localhost:${tlsPort}?${ca}&timeout=5000`);
    await backend.create("q");
    assert.deepEqual(await backend.list(), ["q"]);
    await backend.close();
    const denied = [
      `rediss://localhost:${tlsPort}?timeout=2000`, // An authority that nobody knows.
      `rediss://localhost:${tlsPort}?ca=${dir}/other.pem&timeout=2000`,
      `rediss://127.0.0.1:${tlsPort}?${ca}&timeout=2000`, // The right one, for another name.
    ];
    for (const url of denied) assert.equal(await code(open(url)), "backend-denied", url);
    const plain = open(`redis://localhost:${tlsPort}?timeout=2000`);
    await assert.rejects(plain, { code: "backend-unreachable", hint: /rediss:/ });
    await server.kill();

    const strictPort = await freePort();
    const strict = await startRedis({
      config: [
        `tls-port ${strictPort}`,
        `tls-cert-file ${dir}/server.pem`,
        `tls-key-file ${dir}/server.key`,
        `tls-ca-cert-file ${dir}/ca.pem`,
        "tls-auth-clients yes",
      ],
    });
    const url = `rediss://localhost:${strictPort}?${ca}&timeout=5000`;
    for (const client of ["", `&cert=${dir}/other.pem&key=${dir}/other.key`]) {
      await assert.rejects(open(url + client), (error) => {
        assert.ok(error instanceof AgentqError && error.code === "backend-denied", String(error));
        assert.match(error.message, /client/);
        assert.match(error.hint, /cert=FILE&key=FILE/);
        return true;
      });
    }
    const known = await open(`${url}&cert=${dir}/server.pem&key=${dir}/server.key`);
    assert.deepEqual(await known.list(), []);
    await known.close();
    await strict.kill();
  });

  test("a server that speaks no TLS is a mistake of the address, early", LONG, async () => {
    const server = await startRedis();
    const closed = await startRedis({ config: ["requirepass right"], cliArgs: ["-a", "right"] });
    // One that answers at once, as some take the greeting for a command.
    const blunt = createServer((socket) => {
      socket.on("error", () => {});
      socket.once("data", () => socket.write("-ERR unknown command\r\n"));
    });
    await new Promise<void>((resolve) => blunt.listen(0, "127.0.0.1", resolve));
    const { port } = blunt.address() as { port: number };
    for (
      const address of [
        `127.0.0.1:${server.port}?`,
        `127.0.0.1:${closed.port}?`,
        `127.0.0.1:${port}?`,
        `127.0.0.1:${server.port},127.0.0.1:${closed.port}?sentinel=m&`,
        `127.0.0.1:${server.port}?cluster=1&`,
      ]
    ) {
      // Longer than the test may take: nothing here waits for the end of its time.
      await assert.rejects(open(`rediss://${address}timeout=600000`), (error) => {
        assert.ok(error instanceof AgentqError, String(error));
        assert.equal(error.code, "config-invalid", `${address}: ${error.message}`);
        assert.match(error.message, /doesn't speak TLS/);
        assert.match(error.hint, /redis:\/\//);
        return true;
      });
    }
    blunt.close();
    await closed.kill();
    await server.kill();
  });

  test("a failover that loses acknowledged writes: what is left converges", LONG, async () => {
    const setup = await startSentinels();
    const backend = await open(`redis://${setup.sentinels}?sentinel=mymaster&timeout=20000`);
    await backend.create("q");
    await backend.enqueue("q", [{ data: bytes("a") }, { data: bytes("b") }, { data: bytes("c") }]);
    const [master, replica] = setup.servers;
    const [a] = await backend.dequeue("q", take);
    await until(() => replica!.cli("zcard", "{default}:ov:queue:q:processing") === "1");
    // From here on the replica hears nothing: what the master confirms now is lost with it.
    replica!.cli("config", "set", "masterauth", "refused");
    master!.cli("client", "kill", "type", "replica");
    await until(() => replica!.cli("info", "replication").includes("master_link_status:down"));
    assert.deepEqual(await backend.ack("q", receipts([a!])), ["done"]);
    await backend.enqueue("q", [{ data: bytes("lost") }]);
    const [b] = await backend.dequeue("q", take);
    await master!.kill();
    await until(() => setup.master() === String(replica!.port));
    await until(async () => await code(backend.status("q")) === "none");
    // The replica's word counts now: a is out as it was, b and c are pending, the last one is gone.
    assert.deepEqual(await backend.status("q"), { pending: 2, processing: 1 });
    assert.deepEqual(await backend.ack("q", receipts([b!])), ["stale"]);
    assert.deepEqual(await backend.ack("q", receipts([a!])), ["done"]);
    const rest = await backend.dequeue("q", { ...take, count: 5 });
    assert.deepEqual(rest.map(({ data }) => Buffer.from(data).toString()), ["b", "c"]);
    assert.deepEqual(await backend.ack("q", receipts(rest)), ["done", "done"]);
    assert.equal(await backend.complete(["q"]), true);
    await backend.close();
    await setup.stop();
  });

  test("a server clock that is set forward robs no live worker", LONG, async () => {
    const server = await startRedis();
    const backend = await open(`redis://127.0.0.1:${server.port}`);
    await backend.create("q");
    await backend.enqueue("q", [{ data: bytes("a") }]);
    const [a] = await backend.dequeue("q", { owner, leaseMs: 400 });
    // The record that an hour's jump would leave: run out long ago.
    const key = "{default}:ov:queue:q:agentq:deliveries";
    const [n, till, ...rest] = server.cli("hget", key, a!.id).split("|");
    server.cli("hset", key, a!.id, [n, String(Number(till) - 3_600_000), ...rest].join("|"));
    // The worker lives and renews while the other one watches.
    const recovering = backend.recover("q");
    assert.deepEqual(await backend.renew("q", receipts([a!]), 400), ["done"]);
    assert.deepEqual(await recovering, []);
    assert.deepEqual(await backend.ack("q", receipts([a!])), ["done"]);
    await backend.close();
    await server.kill();
  });
});

describe("the address of a Redis", () => {
  const bad = (url: string) =>
    assert.throws(() => parseRedisUrl(url, {}), (error: unknown) => {
      assert.ok(error instanceof AgentqError && error.code === "usage");
      assert.ok(!error.message.includes("s3cr3t"));
      return true;
    });
  test("is checked, and no error repeats a password", () => {
    for (
      const url of [
        "redis://",
        "redis://:s3cr3t@",
        "redis://u:s3cr3t@h:99999",
        "redis://h:0",
        "redis://h,i",
        "redis://u:s3cr3t@h?nonsense=1",
        "redis://h?cluster=1&sentinel=m",
        "redis://h/1?cluster=1",
        "redis://h?prefix={x}",
        "redis://h?timeout=0",
        "redis://u:%zz@h",
        "redis://h#x",
        "redis://h/x",
        "redis://u:pa?s3cr3t@h",
      ]
    ) bad(url);
  });
  test("says what an option may be", () => {
    const words: [string, RegExp][] = [
      ["timeout=5", /timeout must be milliseconds from 10 to 9999999/],
      ["timeout=10000000", /timeout must be milliseconds from 10 to 9999999/],
      ["timeout=1e3", /timeout must be/],
      ["cluster=yes", /cluster must be 0 or 1/],
      ["prefix=a%20b", /prefix must be 1 to 200 characters/],
      ["sentinel=a:b", /sentinel must be the name of a master/],
      ["nonsense=1", /an option is unknown: there are prefix, cluster, sentinel, timeout, ca,/],
    ];
    for (const [option, message] of words) {
      assert.throws(() => parseRedisUrl(`redis://h?${option}`, {}), { code: "usage", message });
    }
    for (const prefix of ["%ff", "a%C3", "%ed%a0%80"]) {
      const url = `redis://h?prefix=${prefix}`;
      assert.throws(() => parseRedisUrl(url, {}), { code: "config-invalid", message: /no UTF-8/ });
    }
    assert.equal(parseRedisUrl("redis://h?prefix=%C3%A4%EF%BF%BD50%", {}).prefix, "ä\uFFFD50%");
    for (const timeout of [10, 9_999_999]) {
      assert.equal(parseRedisUrl(`redis://h?timeout=${timeout}`, {}).timeoutMs, timeout);
    }
  });
  test("refuses files for TLS that can't be used, and those that nothing would use", () => {
    const dir = tempDir();
    const openssl = (...args: string[]) => {
      const run = spawnSync("openssl", args, { cwd: dir });
      assert.equal(run.status, 0, String(run.stderr));
    };
    const file = (name: string, text: string) => {
      writeFileSync(join(dir, name), text);
      return join(dir, name);
    };
    for (const name of ["mine", "other"]) {
      openssl(
        ...["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=x"],
        ...["-keyout", `${name}.key`, "-out", `${name}.pem`],
      );
    }
    openssl("pkey", "-in", "mine.key", "-aes128", "-passout", "pass:x", "-out", "locked.key");
    openssl("x509", "-in", "mine.pem", "-outform", "der", "-out", "der");
    const [mine, secret] = ["mine.pem", "mine.key"].map((name) =>
      readFileSync(join(dir, name), "utf8")
    ) as [string, string];
    const certificate = file("cert.pem", `words before it\n${mine}`);
    const [key, other] = [join(dir, "mine.key"), join(dir, "other.key")];
    const [der, locked] = [join(dir, "der"), join(dir, "locked.key")];
    const cut = file("cut.pem", mine.slice(0, 200));
    const odd = file("odd.pem", mine.replace(/\n[^-][^]*\n-/, "\nAA==\n-"));
    const empty = file("empty", "");
    for (
      const [options, message] of [
        ...[der, empty, key, cut].map((ca) => [`ca=${ca}`, "holds no certificate in PEM"]),
        [`ca=${odd}`, "can't be read"],
        [`cert=${key}&key=${key}`, "holds no certificate in PEM"],
        [`cert=${certificate}&key=${certificate}`, "holds no private key in PEM"],
        [`cert=${certificate}&key=${locked}`, "encrypted"],
        [`cert=${certificate}&key=${other}`, "holds another private key"],
        [`cert=${certificate}`, "holds no private key"],
        [`key=${key}`, "there is a key without cert"],
        ...["ca", "cert", "key"].flatMap((name) => [
          [`${name}=${join(dir, "none")}`, "can't be read: no such file or directory (ENOENT)"],
          [`${name}=${dir}`, "can't be read: illegal operation on a directory (EISDIR)"],
          [`${name}=${certificate}/below`, "can't be read: not a directory (ENOTDIR)"],
          [`${name}=/proc/self/mem`, "can't be read: "],
        ]),
      ] as [string, string][]
    ) {
      const parse = () => parseRedisUrl(`rediss://h?${options}`, {});
      assert.throws(parse, (error) => {
        assert.ok(error instanceof AgentqError && error.code === "config-invalid", String(error));
        assert.ok(error.message.includes(message), `${options}: ${error.message}`);
        const path = options.split("=").at(-1)!;
        assert.ok(message.includes("without") || error.message.includes(path), error.message);
        return true;
      }, options);
    }
    const all = `ca=${certificate}&cert=${certificate}&key=${key}`;
    assert.match(parseRedisUrl(`rediss://h?${all}`, {}).tls!.key!, /PRIVATE/);
    const both = file("both.pem", mine + secret);
    assert.match(parseRedisUrl(`rediss://h?cert=${both}`, {}).tls!.key!, /PRIVATE/);
    for (const option of [`ca=${certificate}`, "servername=x", `key=${key}`]) {
      const parse = () => parseRedisUrl(`redis://h?${option}`, {});
      assert.throws(parse, { code: "config-invalid", hint: /rediss:/ }, option);
    }
  });
  test("gives hosts, credentials and options, and a label without secrets", () => {
    const address = parseRedisUrl("rediss://us%40er:p%3Aw@[::1]:7000,b/0?sentinel=m&prefix=p", {});
    assert.deepEqual(address.hosts, [{ host: "::1", port: 7000 }, { host: "b", port: 6379 }]);
    assert.equal(address.username, "us@er");
    assert.equal(address.password, "p:w");
    assert.equal(address.mode, "sentinel");
    assert.deepEqual(address.tls, {});
    assert.ok(!address.label.includes("p:w") && !address.label.includes("p%3Aw"));
    const fromEnv = parseRedisUrl("redis://h", {
      AGENTQ_REDIS_USERNAME: "u",
      AGENTQ_REDIS_PASSWORD: "w",
    });
    assert.deepEqual([fromEnv.username, fromEnv.password, fromEnv.db], ["u", "w", 0]);
  });
});
