/** Servers and proxies that close what they said they would keep, and answers that end too early. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { isAgentqError } from "../../../src/errors.ts";
import { openOrigin } from "../../../src/git/origin.ts";
import { openRepository } from "../../../src/git/repository.ts";
import type { Origin, PushOutcome } from "../../../src/git/types.ts";
import { commit, git, makeRepo, tempDir } from "../../helpers/git.ts";
import { certificates } from "./certificates.ts";
import { type Front, type Given, inChunks, serveFront, toTheEnd, whole } from "./front.ts";
import { type GitServer, serveGit } from "./server.ts";

interface Setup {
  readonly bare: string;
  readonly work: string;
  readonly first: string;
  readonly server: GitServer;
  readonly front: Front;
  readonly origin: Origin;
  /** Makes a commit and pushes it to `ref`. */
  push(ref: string, files?: Record<string, string | Buffer>): Promise<PushOutcome>;
  /** Pushes that git-receive-pack was given. */
  readonly pushes: () => number;
}

async function withFront(work: (setup: Setup) => Promise<void>, secure = false): Promise<void> {
  const root = tempDir();
  const clone = makeRepo();
  const first = commit(clone, "first", { "a.txt": "a\n" });
  git(root, "clone", "-q", "--bare", clone, "repo.git");
  const bare = join(root, "repo.git");
  git(bare, "config", "http.receivepack", "true");
  const server = await serveGit(root);
  const tls = secure ? certificates() : undefined;
  const front = await serveFront(server.url, tls);
  const env: Record<string, string> = tls ? { GIT_SSL_CAINFO: join(tls.dir, "ca.pem") } : {};
  const origin = await openOrigin(`${front.url}/repo.git`, { env });
  let count = 0;
  try {
    await work({
      bare,
      work: clone,
      first,
      server,
      front,
      origin,
      push(ref, files = {}) {
        const next = commit(clone, `number ${++count}`, files);
        const repository = openRepository(clone);
        return origin.push([{ ref, old: null, new: next }], repository.objects, {
          remoteHas: [first],
        }).finally(() => repository.close());
      },
      pushes: () =>
        server.log.filter(({ method, url }) =>
          method === "POST" && url.endsWith("/git-receive-pack")
        ).length,
    });
  } finally {
    origin.close();
    front.close();
    await server.close();
  }
}

const isPush = ({ method, url }: { method: string; url: string }) =>
  method === "POST" && url.endsWith("/git-receive-pack");

/** Everything that an origin is asked for, some of it after a pause. */
async function useAll({ origin, first, work, push, bare, pushes }: Setup, ms: number) {
  for (let i = 0; i < 3; i++) {
    assert.equal((await origin.refs(["refs/heads/main"])).refs.get("refs/heads/main"), first);
  }
  assert.deepEqual([...(await origin.readCommits([first])).keys()], [first]);
  const clone = makeRepo();
  const target = openRepository(clone);
  await origin.fetch([first], target.objects);
  target.close();
  assert.equal((await push("refs/x/one")).status, "won");
  await pause(ms);
  assert.equal((await push("refs/x/two")).status, "won");
  assert.equal((await push("refs/x/three", { big: randomBytes(1_500_000) })).status, "won");
  await pause(ms);
  assert.equal((await origin.refs(["refs/x/"])).refs.size, 3);
  assert.equal(pushes(), 3, "each push arrived once");
  assert.equal(git(bare, "rev-parse", "refs/x/three"), git(work, "rev-parse", "HEAD"));
  assert.equal(git(bare, "fsck", "--full", "--strict"), "");
}

for (const secure of [false, true]) {
  for (const close of [0, 30, 300]) {
    test(`a server that closes each connection ${close} ms after its answer, unannounced${secure ? ", TLS" : ""}`, () =>
      withFront(async (setup) => {
        setup.front.behave = (_asked, given) => ({ bytes: whole(given), close });
        await useAll(setup, close === 30 ? 30 : 1);
      }, secure));
  }
}

test("the same from a proxy for plain http", async () => {
  await withFront(async ({ front, server, first }) => {
    front.behave = (_asked, given) => ({ bytes: whole(given), close: 0 });
    const origin = await openOrigin(`${server.url}/repo.git`, { env: { http_proxy: front.url } });
    for (let i = 0; i < 3; i++) {
      assert.equal((await origin.refs(["refs/heads/"])).refs.get("refs/heads/main"), first);
    }
    assert.ok(front.asked.length > 3 && front.asked.every(({ url }) => url.startsWith("http://")));
    origin.close();
  });
});

test("HTTP/1.0, answers to the end of the connection, interim answers", () =>
  withFront(async (setup) => {
    const interim = Buffer.from("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n");
    let turn = 0;
    setup.front.behave = (_asked, given) =>
      turn++ % 2 === 0
        ? { bytes: toTheEnd(given), close: 0 }
        : { bytes: Buffer.concat([interim, inChunks(given, 7)]) };
    await useAll(setup, 1);
  }));

test("connections that are kept are used again, pushes included", () =>
  withFront(async (setup) => {
    await useAll(setup, 1);
    assert.equal(setup.front.connections, 1);
  }));

for (const secure of [false, true]) {
  test(`a read that meets a close, or a reset, on a kept connection is asked on a new one${secure ? ", TLS" : ""}`, () =>
    withFront(async ({ front, origin, first }) => {
      // Closed at the moment at which the second request comes: no look beforehand can show it.
      front.hangUp = (_head, nth) => nth > 1;
      for (let i = 0; i < 4; i++) {
        assert.equal((await origin.refs(["refs/heads/"])).refs.get("refs/heads/main"), first);
        assert.equal((await origin.readCommits([first])).size, 1);
      }
      // It has shown that it keeps none: nothing more is tried on a kept one.
      const before = front.connections;
      await origin.refs(["refs/heads/"]);
      assert.equal(front.connections, before + 1);
    }, secure));
}

test("a push takes a connection that was used twice, and what became of it is unknown once", () =>
  withFront(async ({ front, push, origin, pushes }) => {
    await origin.refs(["refs/"]);
    front.hangUp = (head) => /POST .*git-receive-pack/.test(head) && front.connections === 1;
    const outcome = await push("refs/x/one");
    assert.equal(outcome.status, "unknown");
    assert.equal(pushes(), 0);
    assert.equal((await push("refs/x/one")).status, "won");
    assert.equal(front.connections, 2);
  }));

test("a large push that meets a close before its last byte begins anew, whole", () =>
  withFront(async ({ front, push, origin, bare, pushes }) => {
    await origin.refs(["refs/"]);
    front.hangUp = (head) =>
      /POST .*git-receive-pack[^]*chunked/i.test(head) && front.connections === 1;
    assert.equal((await push("refs/x/one", { big: randomBytes(8_000_000) })).status, "won");
    assert.equal(pushes(), 1);
    assert.equal(git(bare, "fsck", "--full", "--strict"), "");
  }));

/** Places where an answer may end: in its head, in a length, in a packet, before the last one. */
function places(bytes: Buffer): number[] {
  const body = bytes.indexOf("\r\n\r\n") + 4;
  const first = bytes.indexOf("refs/heads/main");
  return [
    0,
    1,
    12,
    body - 6,
    body - 1,
    body,
    body + 2,
    body + 4,
    first,
    bytes.length - 12,
    bytes.length - 5,
    bytes.length - 4,
    bytes.length - 1,
  ];
}

const SHAPES: readonly (readonly [string, (given: Given) => Buffer])[] = [
  ["by length", whole],
  ["in chunks", (given) => inChunks(given, 50)],
  ["to the end of the connection", toTheEnd],
];
for (const [shape, made] of SHAPES) {
  test(`an answer ${shape} that ends anywhere is asked for again`, () =>
    withFront(async ({ front, origin, first }) => {
      const lists = () => front.asked.filter(({ method }) => method === "POST");
      let sample = Buffer.alloc(0);
      front.behave = (_asked, given) => {
        sample = Buffer.from(made(given));
        return { bytes: sample, close: 0 };
      };
      await origin.refs(["refs/heads/"]);
      for (const end of places(sample)) {
        let cuts = 1;
        front.behave = ({ method }, given) => {
          const bytes = made(given);
          const cut = method === "POST" && cuts-- > 0;
          return { bytes: cut ? bytes.subarray(0, end) : bytes, close: 0 };
        };
        const before = lists().length;
        const { refs } = await origin.refs(["refs/heads/"]);
        assert.equal(refs.get("refs/heads/main"), first, `cut at ${end} of ${sample.length}`);
        assert.equal(lists().length, before + 2, `cut at ${end} of ${sample.length}`);
      }
    }));
}

test("a compressed answer that ends too early, and a packet that does, are asked for again", () =>
  withFront(async ({ front, origin, first }) => {
    const gzipped = ({ status, type, body }: Given, length: number) => {
      const data = gzipSync(body).subarray(0, length);
      const head = `HTTP/1.1 ${status} x\r\nContent-Type: ${type}\r\nContent-Encoding: gzip\r\n` +
        `Content-Length: ${data.length}\r\n\r\n`;
      return Buffer.concat([Buffer.from(head), data]);
    };
    for (
      const cut of [
        (g: Given) => gzipped(g, 30),
        (g: Given) => whole({ ...g, body: g.body.subarray(0, -3) }),
      ]
    ) {
      let cuts = 1;
      front.behave = ({ method }, given) => ({
        bytes: method === "POST" && cuts-- > 0 ? cut(given) : whole(given),
      });
      assert.equal((await origin.refs(["refs/heads/"])).refs.get("refs/heads/main"), first);
    }
  }));

test("packs and advertisements that end too early are asked for again, and leave nothing behind", () =>
  withFront(async ({ front, server, first, bare }) => {
    for (const oldProtocol of [false, true]) {
      server.oldProtocol = oldProtocol;
      for (const cut of ["GET", "POST"]) {
        const origin = await openOrigin(`${front.url}/repo.git`, { env: {} });
        let cuts = 1;
        front.behave = ({ method }, given) => {
          const bytes = whole(given);
          return method === cut && cuts-- > 0
            ? { bytes: bytes.subarray(0, -30), close: 0 }
            : { bytes };
        };
        const dir = makeRepo();
        const repository = openRepository(dir);
        await origin.fetch([first], repository.objects);
        assert.ok(repository.objects.has(first));
        assert.match(git(dir, "count-objects", "-v"), /^garbage: 0$/m);
        repository.close();
        origin.close();
        assert.ok(cuts < 1);
      }
    }
    assert.equal(git(bare, "fsck"), "");
  }));

test("an answer that always ends too early is an error that may be tried again", () =>
  withFront(async ({ front, origin }) => {
    front.behave = ({ method }, given) => {
      const bytes = whole(given);
      return { bytes: method === "POST" ? bytes.subarray(0, -9) : bytes, close: 0 };
    };
    await assert.rejects(
      origin.refs(["refs/"]),
      (error) => isAgentqError(error, "protocol-error") && error.retryable,
    );
    assert.equal(front.asked.filter(({ method }) => method === "POST").length, 4);
  }));

test("an answer that is wrong, not cut off, is asked for once", () =>
  withFront(async ({ front, origin }) => {
    front.behave = ({ method }, given) => ({
      bytes: whole(method === "POST" ? { ...given, body: Buffer.from("no packets") } : given),
    });
    await assert.rejects(
      origin.refs(["refs/"]),
      (error) => isAgentqError(error, "protocol-error") && !error.retryable,
    );
    assert.equal(front.asked.filter(({ method }) => method === "POST").length, 1);
  }));

/** An answer with an error status. */
const busy = (status: number, headers = "", text = "busy") =>
  Buffer.from(
    `HTTP/1.1 ${status} x\r\n${headers}Content-Length: ${text.length}\r\n\r\n${text}`,
  );

for (const status of [408, 429, 500, 502, 503, 504]) {
  test(`reads are asked again after HTTP ${status}, and no more than three times`, () =>
    withFront(async ({ front, origin, first }) => {
      let turn = 0;
      front.behave = (_asked, given) => ({
        bytes: turn++ % 2 === 0 ? busy(status, "Retry-After: 0\r\n") : whole(given),
      });
      assert.equal((await origin.refs(["refs/heads/"])).refs.get("refs/heads/main"), first);
      assert.equal((await origin.readCommits([first])).size, 1);
      front.behave = () => ({ bytes: busy(status, "Retry-After: 0\r\n") });
      front.asked.length = 0;
      await assert.rejects(
        origin.refs(["refs/heads/"]),
        (error) =>
          isAgentqError(error, "server-error") && error.details?.status === status &&
          error.details.remoteOutput === "busy",
      );
      assert.equal(front.asked.length, 4);
    }));
}

test("Retry-After is waited for, as a number and as a date, unless that takes long", () =>
  withFront(async ({ front, origin, first }) => {
    let turn = 0;
    front.behave = (_asked, given) => ({
      bytes: turn++ === 0 ? busy(503, "Retry-After: 1\r\n") : whole(given),
    });
    const began = performance.now();
    assert.equal((await origin.refs(["refs/heads/"])).refs.get("refs/heads/main"), first);
    assert.ok(performance.now() - began > 990, "it was left alone");
    const date = new Date(Date.now() + 3_600_000).toUTCString();
    for (const value of ["3600", date]) {
      front.behave = () => ({ bytes: busy(429, `Retry-After: ${value}\r\n`) });
      front.asked.length = 0;
      await assert.rejects(
        openOrigin(`${front.url}/repo.git`, { env: {} }).then((other) => other.refs(["refs/"])),
        (error) =>
          isAgentqError(error, "server-error") && Number(error.details?.retryAfter) > 3000 &&
          Number(error.details?.retryAfter) <= 3600,
      );
      assert.equal(front.asked.length, 1);
    }
  }));

test("a push is asked once, whatever the server answers, and its words are kept", () =>
  withFront(async ({ front, push }) => {
    front.behave = (asked, given) => ({
      bytes: isPush(asked) ? busy(503, "Retry-After: 0\r\n", "down until noon") : whole(given),
    });
    const outcome = await push("refs/x/one");
    assert.ok(outcome.status === "unknown");
    const { cause } = outcome;
    assert.ok(isAgentqError(cause, "server-error"));
    assert.deepEqual(cause.details, {
      status: 503,
      remoteOutput: "down until noon",
      retryAfter: 0,
    });
    assert.equal(front.asked.filter(isPush).length, 1);
  }));
