/** QueueFS's own interface: paths that are read and written. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { describe, test } from "node:test";
import { AgentqError } from "../../src/errors.ts";
import { memoryBackend } from "../../src/queuefs/backends/memory.ts";
import { queueFs } from "../../src/queuefs/control.ts";
import { CONTROL_NAMES } from "../../src/queuefs/names.ts";
import { messageDocument } from "../../src/queuefs/payload.ts";
import { bytes } from "./helpers/redis.ts";

const setup = () => {
  const fs = queueFs(memoryBackend());
  const read = async (path: string) => Buffer.from(await fs.read(path)).toString();
  const write = (path: string, text = "") => fs.write(path, bytes(text));
  return { fs, read, write };
};
const refused = (code: string, work: Promise<unknown>) =>
  assert.rejects(work, (error: unknown) => error instanceof AgentqError && error.code === code);

describe("queueFs()", () => {
  test("moves a message from enqueue to ack by paths alone", async () => {
    const { fs, read, write } = setup();
    await fs.mkdir("/a/b");
    assert.equal(await read("/a/b/dequeue"), "{}");
    assert.equal(await read("/a/b/peek"), "{}");
    const id = await write("/a/b/enqueue", "hello");
    await write("a/b/enqueue/", "world");
    assert.equal(await read("/a/b/peek"), JSON.stringify({ id, data: "hello" }));
    assert.equal(await read("/a/b/dequeue"), JSON.stringify({ id, data: "hello" }));
    assert.equal(await read("/a/b/size"), "1");
    assert.equal(await read("/a/b/status"), '{"pending":1,"processing":1}');
    assert.deepEqual(
      JSON.parse(await read("/a/b/messages")).map((each: { data: string }) => each.data),
      [
        "hello",
        "world",
      ],
    );
    assert.equal(await write("/a/b/ack", `${id}\n`), "");
    await refused("stale-delivery", write("/a/b/ack", id));
    assert.equal(await write("/a/b/clear"), "1");
    assert.equal(await read("/a/b/status"), '{"pending":0,"processing":0}');
  });

  test("shows bytes that aren't text in base64", async () => {
    const { fs, read } = setup();
    await fs.mkdir("q");
    const id = await fs.write("q/enqueue", Uint8Array.from([255, 0]));
    assert.equal(await read("q/dequeue"), JSON.stringify({ id, data: null, data_base64: "/wA=" }));
    assert.deepEqual(messageDocument({ id: "x", data: bytes("\ufeff\u0000") }), {
      id: "x",
      data: "\ufeff\u0000",
    });
  });

  test("lists, describes and removes the tree", async () => {
    const { fs } = setup();
    await fs.mkdir("/team/jobs");
    await fs.mkdir("/team");
    await fs.mkdir("/solo");
    const names = async (path: string) => (await fs.readdir(path)).map(({ name }) => name);
    assert.deepEqual(await names("/"), ["solo", "team"]);
    assert.deepEqual(await names("/team"), ["jobs", ...CONTROL_NAMES]);
    assert.deepEqual(await fs.stat("/team/jobs/ack"), {
      name: "ack",
      isDirectory: false,
      mode: 0o222,
      size: 0,
    });
    assert.equal((await fs.stat("/team/jobs/status")).mode, 0o444);
    assert.equal((await fs.stat("/team")).isDirectory, true);
    assert.equal((await fs.stat("/")).isDirectory, true);
    await refused("queue-not-found", fs.stat("/nothing"));
    await refused("queue-not-found", fs.readdir("/nothing"));
    await refused("queue-not-found", fs.stat("/nothing/ack"));
    await refused("queue-exists", fs.mkdir("/team"));
    assert.deepEqual(await fs.removeAll("/team"), ["team", "team/jobs"]);
    assert.deepEqual(await names("/"), ["solo"]);
    await refused("queue-path-invalid", fs.removeAll("/"));
  });

  test("keeps reserved words, read and write apart", async () => {
    const { fs, read, write } = setup();
    await fs.mkdir("q");
    for (const name of CONTROL_NAMES) await refused("queue-name-invalid", fs.mkdir(`q/${name}`));
    for (const name of ["enqueue", "ack", "clear"]) {
      await refused("queue-path-invalid", read(`q/${name}`));
    }
    for (const name of ["dequeue", "peek", "size", "status", "messages"]) {
      await refused("queue-path-invalid", write(`q/${name}`));
    }
    for (const path of ["q", "", "/", "q/nothing"]) await refused("queue-path-invalid", read(path));
    for (const path of ["status", "/ack", "../q/status", "q//status", "q/../q/status"]) {
      await refused("queue-name-invalid", read(path));
    }
    await fs.mkdir("q/enqueue/deep");
    await write("q/enqueue/deep/enqueue", "x");
    assert.equal(await read("q/enqueue/deep/size"), "1");
  });
});
