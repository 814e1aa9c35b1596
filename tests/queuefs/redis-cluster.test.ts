/** Clusters whose nodes don't know, or don't tell, where they are. */
import assert from "node:assert/strict";
import { connect, createServer } from "node:net";
import { test } from "node:test";
import { parseRedisUrl } from "../../src/queuefs/backends/redis/address.ts";
import { redisBackend } from "../../src/queuefs/backends/redis/backend.ts";
import { placed, redirected } from "../../src/queuefs/backends/redis/places.ts";
import { callerOwner } from "../../src/queuefs/owner.ts";
import { bytes, freePort, startCluster, startRedis, until } from "./helpers/redis.ts";

const LONG = { timeout: 120_000 };
const take = { owner: callerOwner("test"), leaseMs: 60_000 };
const open = (url: string) => redisBackend(parseRedisUrl(url, {}));

/** Several prefixes, so that all nodes have to do with them: by MOVED where the slots aren't known. */
async function works(port: number, prefixes = ["a", "b", "c", "d", "e", "f"]) {
  for (const prefix of prefixes) {
    const backend = await open(`redis://127.0.0.1:${port}?cluster=1&prefix=${prefix}`);
    await backend.create("q");
    await backend.enqueue("q", [{ id: "m", data: bytes("x") }]);
    const [taken] = await backend.dequeue("q", take);
    assert.equal(taken!.id, "m");
    assert.deepEqual(await backend.ack("q", [taken!]), ["done"]);
    await backend.remove("q");
    await backend.close();
  }
}

test("one node without a host is the one that was asked", LONG, async () => {
  const server = await startRedis({ config: ["cluster-enabled yes"] });
  const url = `redis://127.0.0.1:${server.port}?cluster=1&timeout=1000`;
  // Before it has slots it says so.
  await assert.rejects(open(url), {
    code: "backend-unreachable",
    message: /CLUSTERDOWN.*no slots/,
  });
  server.cli("cluster", "addslotsrange", "0", "100");
  await until(() => server.cli("cluster", "info").includes("cluster_slots_ok:101"));
  await assert.rejects(open(url), {
    code: "backend-unreachable",
    message: /CLUSTERDOWN/,
    hint: /CLUSTER INFO/,
    retryable: true,
  });
  server.cli("cluster", "addslotsrange", "101", "16383");
  await until(() => server.cli("cluster", "info").includes("cluster_state:ok"));
  for (const type of ["ip", "unknown-endpoint", "hostname"]) {
    server.cli("config", "set", "cluster-preferred-endpoint-type", type);
    assert.equal(server.cli("cluster", "slots").split("\n")[2], type === "hostname" ? "?" : "");
    await works(server.port, ["a"]);
  }
  await server.kill();
});

test(
  "nodes that tell no host are found by their ports, and by the address of one",
  LONG,
  async () => {
    const servers = await startCluster();
    for (const type of ["unknown-endpoint", "hostname"]) {
      for (const { cli } of servers) cli("config", "set", "cluster-preferred-endpoint-type", type);
      await works(servers[0]!.port);
    }
    // While a backend is open all slots move to another node, which only MOVED tells, without a host.
    for (const { cli } of servers) {
      cli("config", "set", "cluster-preferred-endpoint-type", "unknown-endpoint");
    }
    const backend = await open(`redis://127.0.0.1:${servers[0]!.port}?cluster=1&prefix=a`);
    await backend.create("q");
    const slot = servers[0]!.cli("cluster", "keyslot", "{a}");
    const owner = servers.find(({ cli }) => !cli("get", "{a}").startsWith("MOVED"))!;
    const next = servers.find((server) => server !== owner)!;
    const [from, to] = [owner, next].map(({ cli }) => cli("cluster", "myid")) as [string, string];
    next.cli("cluster", "setslot", slot, "importing", from);
    owner.cli("cluster", "setslot", slot, "migrating", to);
    for (const key of owner.cli("cluster", "getkeysinslot", slot, "1000").split("\n")) {
      owner.cli("migrate", "127.0.0.1", String(next.port), key, "0", "5000");
    }
    for (const { cli } of [next, owner, ...servers]) cli("cluster", "setslot", slot, "node", to);
    await backend.enqueue("q", [{ id: "m", data: bytes("x") }]);
    assert.deepEqual(await backend.status("q"), { pending: 1, processing: 0 });
    await backend.close();
    for (const server of servers) await server.kill();
  },
);

test("a node whose host nobody knows is named, with what to set", LONG, async () => {
  const port = await freePort();
  const bulk = (text: string) => `$${text.length}\r\n${text}\r\n`;
  const node = (host: string, port: number, id: string) =>
    `*4\r\n${bulk(host)}:${port}\r\n${bulk(id)}*0\r\n`;
  const slots = `*2\r\n*3\r\n:0\r\n:99\r\n${node("127.0.0.1", port, "one")}` +
    `*3\r\n:100\r\n:16383\r\n${node("", 0, "two")}`;
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.on("data", (data) => {
      for (const word of String(data).toLowerCase().match(/\r\n(slots|setname|info)\r\n/g) ?? []) {
        socket.write(word.includes("slots") ? slots : word.includes("info") ? bulk("") : "+OK\r\n");
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  await assert.rejects(open(`redis://127.0.0.1:${port}?cluster=1`), {
    code: "backend-unreachable",
    message: /doesn't say where all of its nodes are: 1 of 2 .*"two"/,
    hint: /cluster-announce-ip/,
    retryable: true,
  });
  server.close();
});

test("hosts that are told stay; replicas without one are passed over", () => {
  const asked = { host: "h", port: 1 };
  const more = ["hostname", "x", "ip", "10.0.0.2"];
  const rows = placed([
    [0, 9, ["10.0.0.1", 2, "a"], ["", 0, "b"]],
    [10, 19, ["?", 3, "c", more], [null, 4, "d"]],
    [20, 29, ["", 5, "e"], ["?", 6, "f", []]],
  ], asked);
  assert.deepEqual(rows.map((row) => row.slice(2).map((node) => (node as readonly unknown[])[0])), [
    ["10.0.0.1", ""],
    ["10.0.0.2", "h"],
    ["h", ""],
  ]);
  const hostOf = (port: number) => `h${port}`;
  const said = (message: string) => redirected(new Error(message), hostOf).message;
  assert.equal(said("MOVED 5 :7"), "MOVED 5 h7:7");
  assert.equal(said("ASK 5 ?:7"), "ASK 5 h7:7");
  assert.equal(said("MOVED 5 ::1:7"), "MOVED 5 ::1:7");
});

for (const how of ["breaks off before the answer", "falls silent"]) {
  test(
    `a call whose connection ${how} is not made again, and the next has another`,
    LONG,
    async () => {
      const port = await freePort();
      let calls: number | null = null;
      const proxy = createServer((near) => {
        const far = connect(server.port, "127.0.0.1");
        for (const socket of [near, far]) socket.on("error", () => {});
        far.pipe(near);
        near.on("data", (chunk) => {
          far.write(chunk);
          if (calls === null || !/evalsha/i.test(chunk.toString("latin1"))) return;
          calls++;
          far.unpipe(near);
          if (how === "falls silent") far.resume();
          else far.once("data", () => near.destroy()).resume();
        });
        near.on("close", () => far.destroy());
        far.on("close", () => near.destroy());
      });
      const server = await startRedis({
        config: [
          "cluster-enabled yes",
          "cluster-announce-ip 127.0.0.1",
          `cluster-announce-port ${port}`,
        ],
      });
      await new Promise<void>((resolve) => proxy.listen(port, "127.0.0.1", resolve));
      server.cli("cluster", "addslotsrange", "0", "16383");
      await until(() => server.cli("cluster", "info").includes("cluster_state:ok"));
      const backend = await open(`redis://127.0.0.1:${port}?cluster=1&timeout=2000`);
      await backend.create("q");
      await backend.enqueue("q", [{ data: bytes("first") }]);
      calls = 0;
      await assert.rejects(backend.enqueue("q", [{ data: bytes("second") }]), {
        code: "backend-outcome-unknown",
      });
      assert.equal(calls, 1);
      calls = null;
      await until(() => backend.status("q").then(({ pending }) => pending === 2, () => false));
      await backend.close();
      await server.kill();
      proxy.close();
    },
  );
}
