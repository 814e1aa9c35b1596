import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { randomBytes } from "node:crypto";
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { isAgentqError } from "../../../src/errors.ts";
import { openOrigin, type OriginOptions } from "../../../src/git/origin.ts";
import { openRepository } from "../../../src/git/repository.ts";
import type { Origin, RefUpdate } from "../../../src/git/types.ts";
import { commit, git, makeRepo, tempDir, tryGit, write } from "../../helpers/git.ts";
import { checkPushFromPart, checkReading, makeTwo } from "../origin-checks.ts";
import { type GitServer, serveGit } from "./server.ts";

interface Setup {
  bare: string;
  work: string;
  first: string;
  server: GitServer;
  origin: Origin;
  url: string;
  push(updates: readonly RefUpdate[], remoteHas?: string[]): ReturnType<Origin["push"]>;
  open(options?: OriginOptions): Promise<Origin>;
}

async function withServer(
  work: (setup: Setup) => Promise<void>,
  options: { basic?: string } = {},
): Promise<void> {
  const root = tempDir();
  const clone = makeRepo();
  const first = commit(clone, "first", { "a.txt": "a\n", "dir/b.txt": "b\n" });
  git(root, "clone", "-q", "--bare", clone, "repo.git");
  const bare = join(root, "repo.git");
  git(bare, "config", "http.receivepack", "true");
  const server = await serveGit(root, options);
  const url = `${server.url}/repo.git`;
  const open = (extra: OriginOptions = {}) => openOrigin(url, { env: {}, ...extra });
  const origin = await open();
  const repository = openRepository(clone);
  try {
    await work({
      bare,
      work: clone,
      first,
      server,
      origin,
      url,
      open,
      push: (updates, remoteHas = [first]) =>
        origin.push(updates, repository.objects, { remoteHas }),
    });
  } finally {
    origin.close();
    await server.close();
  }
}

function hook(bare: string, name: string, script: string): void {
  write(bare, `hooks/${name}`, script);
  chmodSync(join(bare, "hooks", name), 0o755);
}

test("refs() asks for the wanted prefixes in one advertisement, with HEAD", () =>
  withServer(async ({ bare, origin, first, server }) => {
    git(bare, "update-ref", "refs/weave/main/queue", first);
    git(bare, "update-ref", "refs/other/x", first);
    const { refs, head } = await origin.refs(["refs/heads/", "refs/weave/main/"]);
    assert.deepEqual([...refs], [["refs/heads/main", first], ["refs/weave/main/queue", first]]);
    assert.equal(head, "refs/heads/main");
    await origin.refs(["refs/heads/"]);
    assert.deepEqual(
      server.log.map(({ method, url }) => `${method} ${url}`),
      [
        "GET /repo.git/info/refs?service=git-upload-pack",
        "POST /repo.git/git-upload-pack",
        "POST /repo.git/git-upload-pack",
      ],
    );
  }));

test("refs() knows HEAD of an empty repository", () =>
  withServer(async ({ server }) => {
    const root = tempDir();
    git(root, "init", "-q", "--bare", "-b", "trunk", "empty.git");
    const empty = await serveGit(root);
    const origin = await openOrigin(`${empty.url}/empty.git`, { env: {} });
    assert.deepEqual(await origin.refs(["refs/"]), { refs: new Map(), head: "refs/heads/trunk" });
    origin.close();
    await empty.close();
    assert.deepEqual(server.log, []);
  }));

for (const oldProtocol of [false, true]) {
  const version = oldProtocol ? "protocol 0" : "protocol 2";
  test(`${version}: reading, fetching and pushing`, () =>
    withServer(async ({ bare, work, first, server, origin, push }) => {
      server.oldProtocol = oldProtocol;
      const { feat, second } = makeTwo({ bare, work });

      const before = await origin.refs(["refs/heads/"]);
      assert.deepEqual([...before.refs.keys()].sort(), ["refs/heads/feat", "refs/heads/main"]);
      assert.equal(before.head, "refs/heads/main");

      assert.deepEqual(
        await push([
          { ref: "refs/heads/main", old: first, new: second },
          { ref: "refs/weave/main/done", old: null, new: second },
        ]),
        { status: "won" },
      );
      assert.equal(git(bare, "rev-parse", "main"), second);
      assert.equal(git(bare, "ls-tree", "-r", "main"), git(work, "ls-tree", "-r", "main"));

      await checkReading(origin, { bare, work, first, feat, second });
    }));

  test(`${version}: clones that lack history push what is new, also when the branch has moved`, () =>
    withServer(async ({ bare, work, url, server }) => {
      server.oldProtocol = oldProtocol;
      await checkPushFromPart(
        { bare, work },
        (repository) => openOrigin(url, { env: {}, repository }),
      );
    }));
}

test("a lost race is told from a refusal by the refs, and nothing moves", () =>
  withServer(async ({ bare, work, first, push }) => {
    const second = commit(work, "second");
    const outcome = await push([
      { ref: "refs/heads/main", old: second, new: first },
      { ref: "refs/heads/other", old: null, new: first },
    ]);
    assert.ok(outcome.status === "lost");
    assert.deepEqual(outcome.refs, ["refs/heads/main"]);
    assert.equal(git(bare, "for-each-ref", "--format=%(refname)"), "refs/heads/main");
    const exists = await push([{ ref: "refs/heads/main", old: null, new: second }]);
    assert.equal(exists.status, "lost");
  }));

test("a hook that declines one ref of three refuses all, once, in its own words", () =>
  withServer(async ({ bare, work, first, push }) => {
    const count = join(bare, "count");
    hook(
      bare,
      "update",
      `#!/bin/sh\necho "$1" >> ${count}\ncase "$1" in refs/weave/*/done) echo "no results here" >&2; exit 1;; esac\n`,
    );
    const second = commit(work, "second");
    const outcome = await push([
      { ref: "refs/weave/main/lock", old: null, new: second },
      { ref: "refs/heads/main", old: first, new: second },
      { ref: "refs/weave/main/done", old: null, new: second },
    ]);
    assert.ok(outcome.status === "refused");
    assert.match(outcome.remoteOutput, /no results here/);
    assert.deepEqual(outcome.refs.map(({ ref }) => ref).sort(), [
      "refs/heads/main",
      "refs/weave/main/done",
      "refs/weave/main/lock",
    ]);
    assert.equal(git(bare, "for-each-ref", "--format=%(refname)"), "refs/heads/main");
    assert.equal(readFileSync(count, "utf8").match(/done/g)?.length, 1);
  }));

test("a server without atomic is refused before anything is sent", () =>
  withServer(async ({ bare, work, first, server, push }) => {
    git(bare, "config", "receive.advertiseAtomic", "false");
    const second = commit(work, "second");
    await assert.rejects(
      push([{ ref: "refs/heads/main", old: first, new: second }]),
      (error) => isAgentqError(error, "atomic-unsupported"),
    );
    assert.deepEqual(server.log.filter(({ method }) => method === "POST"), []);
  }));

test("an answer that is cut off after the push was applied is unknown, not an error", () =>
  withServer(async ({ bare, work, first, server, push }) => {
    const second = commit(work, "second");
    for (const keep of [0, 10]) {
      server.tamper = ({ url }, body) =>
        url.endsWith("git-receive-pack") && !url.includes("info")
          ? { body: body.subarray(0, keep), cut: true }
          : { body };
      const old = keep === 0 ? first : second;
      const outcome = await push([{
        ref: "refs/heads/main",
        old,
        new: keep === 0 ? second : first,
      }]);
      assert.equal(outcome.status, "unknown");
      assert.equal(git(bare, "rev-parse", "main"), keep === 0 ? second : first);
    }
  }));

test("what post-receive leaves running is not waited for", () =>
  withServer(async ({ bare, work, first, push, origin }) => {
    hook(
      bare,
      "post-receive",
      `#!/bin/sh\necho said\nmkfifo hold\n(read -r line < hold; echo "$line" > heard) &\n`,
    );
    const second = commit(work, "second");
    assert.deepEqual(await push([{ ref: "refs/heads/main", old: first, new: second }]), {
      status: "won",
    });
    origin.close();
    writeFileSync(join(bare, "hold"), "go\n");
    while (!existsSync(join(bare, "heard"))) await new Promise((done) => setTimeout(done, 10));
  }));

test("a lock that another push holds is told as one, by name, and nothing is refused over it", () =>
  withServer(async ({ bare, first, push }) => {
    const update = { ref: "refs/weave/main/queue", old: null, new: first };
    write(bare, "refs/weave/main/queue.lock", "");
    await assert.rejects(push([update]), (error) => {
      assert.ok(isAgentqError(error, "ref-locked"), String(error));
      assert.ok(error.retryable);
      assert.equal(error.details?.ref, update.ref);
      assert.match(error.message, /^refs\/weave\/main\/queue is locked.*queue\.lock': File exists/);
      return true;
    });
    rmSync(join(bare, "refs/weave/main/queue.lock"));
    assert.deepEqual(await push([update]), { status: "won" });
  }));

test("a chain that is hidden from readers or from all is refused by name", () =>
  withServer(async ({ bare, first, push }) => {
    git(bare, "update-ref", "refs/weave/main/queue", first);
    for (const key of ["uploadpack.hideRefs", "transfer.hideRefs"]) {
      git(bare, "config", key, "refs/weave");
      const outcome = await push([{ ref: "refs/weave/main/queue", old: null, new: first }]);
      assert.ok(outcome.status === "refused", `${key}: ${JSON.stringify(outcome)}`);
      assert.match(outcome.message, /^refs\/weave\/main\/queue: /);
      git(bare, "config", "--unset", key);
    }
  }));

/** Answers pushes by a status, after `effect`. */
function answering(
  server: GitServer,
  status: number,
  effect: () => void,
  headers: Record<string, string> = {},
): void {
  server.intercept = ({ method, url, body }, response) => {
    if (method !== "POST" || !url.endsWith("git-receive-pack")) return false;
    if (body.length > 4) effect();
    response.writeHead(status, { "Content-Type": "text/plain", ...headers });
    response.end(status === 204 ? "" : "words of the server");
    return true;
  };
}

const REALM = { "WWW-Authenticate": 'Basic realm="x"' };

test("a gateway's 502 in place of the report is unknown; 413, 401, 404 and 403 are final, once the refs say so", () =>
  withServer(async ({ work, first, server, push }) => {
    const second = commit(work, "second");
    const update = { ref: "refs/heads/main", old: first, new: second };
    answering(server, 502, () => {});
    assert.equal((await push([update])).status, "unknown");
    for (
      const [status, code] of [
        [413, "push-too-large"],
        [401, "auth-required"],
        [404, "origin-not-found"],
      ] as const
    ) {
      answering(server, status, () => {}, REALM);
      await assert.rejects(push([update]), (error) => isAgentqError(error, code));
    }
    answering(server, 403, () => {});
    const outcome = await push([update]);
    assert.ok(outcome.status === "refused");
    assert.equal(outcome.remoteOutput, "words of the server");
    assert.equal(outcome.httpStatus, 403);
    // Nothing says so where the refs can't be read.
    let pushed = false;
    answering(server, 403, () => pushed = true);
    const turnDown = server.intercept!;
    server.intercept = (exchange, response) => {
      if (!pushed) return turnDown(exchange, response);
      response.writeHead(403);
      response.end();
      return true;
    };
    assert.equal((await push([update])).status, "unknown");
  }));

test("a push that took effect is won, whatever status stands in place of its report", () =>
  withServer(async ({ bare, work, first, server, push }) => {
    let old = first;
    for (const status of [403, 401, 404, 413, 411, 400, 204, 405]) {
      const next = commit(work, `status ${status}`);
      answering(
        server,
        status,
        () => git(work, "push", "-q", bare, `${next}:refs/heads/main`),
        REALM,
      );
      const update = { ref: "refs/heads/main", old, new: next };
      assert.deepEqual(await push([update], [old]), { status: "won" }, `HTTP ${status}`);
      // Somebody may have gone on from it at once: whether it was there, only its chain tells.
      const mine = commit(work, `mine ${status}`);
      const theirs = commit(work, `theirs ${status}`);
      answering(
        server,
        status,
        () => git(work, "push", "-q", bare, `${theirs}:refs/heads/main`),
        REALM,
      );
      const outcome = await push([{ ref: "refs/heads/main", old: next, new: mine }], [next]);
      assert.equal(outcome.status, "unknown", `HTTP ${status}`);
      old = theirs;
    }
  }));

test("a large push goes out in chunks and arrives", () =>
  withServer(async ({ bare, work, first, push }) => {
    const second = commit(work, "large", { "large.bin": randomBytes(3_000_000) });
    assert.deepEqual(await push([{ ref: "refs/heads/main", old: first, new: second }]), {
      status: "won",
    });
    assert.equal(git(bare, "fsck", "--full", "--strict"), "");
  }));

test("a changed large text is sent as a small delta", () =>
  withServer(async ({ bare, work, push, server }) => {
    const lines = Array.from({ length: 20_000 }, () => randomBytes(12).toString("hex"));
    const base = commit(work, "base", { "text.txt": lines.join("\n") });
    git(work, "push", "-q", bare, "main");
    lines[10_000] = "changed";
    const next = commit(work, "next", { "text.txt": lines.join("\n") });
    const outcome = await push([{ ref: "refs/heads/main", old: base, new: next }], [base]);
    assert.deepEqual(outcome, { status: "won" });
    const sent = Number(server.log.at(-1)!.headers["content-length"]);
    assert.ok(sent < 2000, `${sent} bytes`);
    assert.equal(git(bare, "fsck", "--full", "--strict"), "");
  }));

test("failures are typed errors within their time, and name no secret", async () => {
  await withServer(async ({ server, open }) => {
    const expect = async (code: string, options: OriginOptions = {}) => {
      const origin = await open(options);
      await assert.rejects(origin.refs(["refs/"]), (error) => {
        assert.ok(isAgentqError(error), String(error));
        assert.equal(error.code, code, error.message);
        return true;
      });
      origin.close();
    };
    const say = (status: number, headers: Record<string, string>, body: string) => {
      server.intercept = (_exchange, response) => {
        response.writeHead(status, headers);
        response.end(body);
        return true;
      };
    };
    for (
      const [status, code] of [
        [401, "auth-required"],
        [403, "forbidden"],
        [404, "origin-not-found"],
        [500, "server-error"],
        [503, "server-error"],
        [418, "server-error"],
      ] as const
    ) {
      say(status, { "Content-Type": "text/html" }, "<h1>no</h1>");
      await expect(code);
    }
    say(200, { "Content-Type": "text/html" }, "<h1>log in</h1>");
    await expect("protocol-error");
    const type = { "Content-Type": "application/x-git-upload-pack-advertisement" };
    for (
      const body of [
        "",
        "garbage",
        "00",
        "0000",
        "001e# service=git-upload-pack\n",
        "fff4abc",
        "0003",
      ]
    ) {
      say(200, type, body);
      await expect("protocol-error");
    }
    server.intercept = (_exchange, response) => {
      response.destroy();
      return true;
    };
    await expect("origin-unreachable");
    // Silence: before the head, and in the middle of the body.
    server.intercept = () => true;
    await expect("origin-timeout", { timeouts: { idle: 50 } });
    server.intercept = (_exchange, response) => {
      response.writeHead(200, { ...type, "Content-Length": "1000" });
      response.write("001e# service=git-upload-pack\n");
      return true;
    };
    await expect("origin-timeout", { timeouts: { idle: 50 } });
    await expect("origin-timeout", { timeouts: { total: 50 } });
  });
  const closed = await openOrigin("http://user:hunter2@127.0.0.1:1/x.git", { env: {} });
  await assert.rejects(closed.refs(["refs/"]), (error) => {
    assert.ok(isAgentqError(error, "origin-unreachable"));
    assert.ok(
      !JSON.stringify(error).includes("hunter2") && !String(error.stack).includes("hunter2"),
    );
    return true;
  });
  assert.equal(closed.url, "http://127.0.0.1:1/x.git");
});

test("a truncated pack is refused and leaves nothing behind", () =>
  withServer(async ({ first, server, origin }) => {
    const clone = makeRepo();
    const { objects } = openRepository(clone);
    server.tamper = ({ method }, body) =>
      method === "POST" ? { body: body.subarray(0, body.length - 30), cut: true } : { body };
    await assert.rejects(origin.fetch([first], objects), (error) => isAgentqError(error));
    server.tamper = ({ method }, body) => {
      if (method !== "POST") return { body };
      const changed = Buffer.from(body);
      changed[body.indexOf("PACK") + 40]! ^= 0xff;
      return { body: changed };
    };
    await assert.rejects(
      origin.fetch([first], objects),
      (error) => isAgentqError(error, "protocol-error"),
    );
    assert.equal(
      git(clone, "count-objects", "-v").match(/^(garbage|in-pack|count): 0$/gm)?.length,
      3,
    );
  }));

test("aborting ends a request at once", () =>
  withServer(async ({ server, origin }) => {
    const controller = new AbortController();
    server.intercept = () => {
      controller.abort();
      return true;
    };
    await assert.rejects(origin.refs(["refs/"], controller.signal));
  }));

test("credentials come from url, token, headers, netrc, helpers and askpass", () =>
  withServer(async ({ server, url, first }) => {
    const home = tempDir();
    const host = url.slice("http://".length);
    const works = async (
      at: string,
      options: { env?: Record<string, string>; config?: string[] },
    ) => {
      const clone = makeRepo();
      for (const line of options.config ?? []) {
        const equals = line.indexOf("=");
        git(clone, "config", "--add", line.slice(0, equals), line.slice(equals + 1));
      }
      const env = { PATH: process.env.PATH ?? "", HOME: home, ...options.env };
      const origin = await openOrigin(at, { repository: openRepository(clone), env });
      const { refs } = await origin.refs(["refs/heads/"]);
      assert.equal(refs.get("refs/heads/main"), first);
      origin.close();
    };
    const refuses = (at: string, options: Parameters<typeof works>[1]) =>
      assert.rejects(works(at, options), (error) => {
        assert.ok(isAgentqError(error, "auth-required"));
        assert.ok(!JSON.stringify(error).includes("s3cret"));
        return true;
      });
    await refuses(url, {});
    await works(`http://me:s3cret%20x@${host}`, {});
    await refuses(`http://me:wrong-s3cret@${host}`, {});
    await works(`http://me@${host}`, { env: { AGENTQ_TOKEN: "s3cret x" } });
    const header = `http.extraHeader=Authorization: Basic ${
      Buffer.from("me:s3cret x").toString("base64")
    }`;
    await works(url, { config: [header] });
    await works(url, { config: [header.replace("http.", `http.${server.url}.`)] });
    await refuses(url, { config: [header.replace("http.", "http.http://elsewhere.example.")] });
    write(
      home,
      "netrc",
      `machine other login me password no\nmachine 127.0.0.1 login me password "s3cret x"\n`,
    );
    await works(url, { env: { NETRC: join(home, "netrc") } });
    write(
      home,
      "store",
      `https://me:no@127.0.0.1\n${server.url.replace("//", "//me:s3cret%20x@")}\n`,
    );
    await works(url, { config: [`credential.helper=store --file=${join(home, "store")}`] });
    await works(url, {
      config: [
        `credential.helper=!f() { cat > ${home}/asked-$1; echo username=me; echo 'password=s3cret x'; }; f`,
      ],
    });
    assert.equal(
      readFileSync(join(home, "asked-get"), "utf8"),
      `protocol=http\nhost=127.0.0.1:${server.port}\n`,
    );
    write(
      home,
      "askpass",
      `#!/bin/sh\ncase "$1" in Username*) echo me;; *) echo 's3cret x';; esac\n`,
    );
    chmodSync(join(home, "askpass"), 0o755);
    await works(url, { env: { GIT_ASKPASS: join(home, "askpass") } });
    // A helper that knows a wrong one doesn't end the search.
    await works(url, {
      config: ["credential.helper=!echo username=me; echo password=old; true"],
      env: { GIT_ASKPASS: join(home, "askpass") },
    });
  }, { basic: "me:s3cret x" }));

test("the first request follows a redirect, and takes no secret to another server", () =>
  withServer(async ({ server, first }) => {
    server.intercept = ({ url: path }, response) => {
      if (!path.startsWith("/old/")) return false;
      response.writeHead(301, { Location: path.replace("/old/", "/") });
      response.end();
      return true;
    };
    const moved = await openOrigin(`http://me:pw@127.0.0.1:${server.port}/old/repo.git`, {
      env: {},
    });
    assert.equal((await moved.refs(["refs/heads/"])).refs.get("refs/heads/main"), first);
    moved.close();
    const elsewhere = await serveGit("/nonexistent");
    elsewhere.intercept = ({ url: path }, response) => {
      response.writeHead(302, { Location: server.url + path });
      response.end();
      return true;
    };
    const origin = await openOrigin(`http://me:pw@127.0.0.1:${elsewhere.port}/repo.git`, {
      env: { AGENTQ_TOKEN: "t" },
    });
    await assert.rejects(
      origin.refs(["refs/heads/"]),
      (error) =>
        isAgentqError(error, "auth-required") && /redirects there/.test(error.message) &&
        /the url itself/.test(error.hint) && !/:pw@/.test(error.message),
    );
    assert.equal(server.log.at(-1)!.headers.authorization, undefined);
    assert.ok(elsewhere.log[0]!.headers.authorization);
    origin.close();
    await elsewhere.close();
  }, { basic: "me:pw" }));

test("a login page behind a redirect and a way out of https are refused", () =>
  withServer(async ({ server, open }) => {
    for (
      const location of ["/login", "ftp://127.0.0.1/repo.git/info/refs?service=git-upload-pack"]
    ) {
      server.intercept = (_exchange, response) => {
        response.writeHead(302, { Location: location });
        response.end();
        return true;
      };
      const origin = await open();
      await assert.rejects(
        origin.refs(["refs/"]),
        (error) => isAgentqError(error, "protocol-error", "forbidden"),
      );
      origin.close();
    }
  }));

test("6 writers race for one ref over HTTP: one wins each round, and none is refused", () =>
  withServer(async ({ bare, work, first, url }) => {
    const { objects } = openRepository(work);
    const commits = Array.from({ length: 6 }, (_, i) => commit(work, `racer ${i}`));
    const outcomes = await Promise.all(commits.map(async (oid) => {
      const origin = await openOrigin(url, { env: {} });
      const outcome = await origin.push(
        [{ ref: "refs/weave/main/queue", old: null, new: oid }],
        objects,
        { remoteHas: [first] },
      );
      origin.close();
      return outcome.status;
    }));
    assert.equal(outcomes.filter((status) => status === "won").length, 1, outcomes.join());
    assert.equal(outcomes.filter((status) => status === "lost").length, 5, outcomes.join());
    assert.equal(tryGit(bare, ["fsck", "--full"]).status, 0);
  }));

for (const transport of ["http", "file"]) {
  test(`${transport}: a shallow clone gets history from behind its boundary when it asks`, () =>
    withServer(async ({ bare, work, first, url }) => {
      const second = commit(work, "second", { "dir/b.txt": "2\n" });
      const third = commit(work, "third", { "dir/b.txt": "3\n" });
      git(work, "push", "-q", bare, "main");
      const shallow = tempDir();
      git(shallow, "clone", "-q", "--depth=1", `file://${bare}`, ".");
      const fourth = commit(work, "fourth", { "new.txt": "4\n" });
      git(work, "push", "-q", bare, "main");
      const repository = openRepository(shallow);
      const origin = await openOrigin(transport === "http" ? url : bare, { env: {}, repository });
      await origin.fetch([fourth], repository.objects);
      assert.ok(repository.objects.has(fourth));
      assert.ok(!repository.objects.has(second), "nothing behind the boundary was asked for");
      await origin.fetch([second], repository.objects);
      for (const oid of [second, first]) assert.ok(repository.objects.has(oid));
      assert.equal(git(shallow, "cat-file", "-p", `${first}:dir/b.txt`), "b");
      assert.equal(git(shallow, "rev-parse", "HEAD"), third);
      origin.close();
    }));

  test(`${transport}: what is there already is not fetched again, what is half there is completed`, () =>
    withServer(async ({ bare, work, first, url, server }) => {
      const second = commit(work, "second", { "dir/b.txt": "2\n", "dir/c.txt": "c\n" });
      git(work, "push", "-q", bare, "main");
      const clone = tempDir();
      git(clone, "init", "-q", "-b", "main", ".");
      const { objects } = openRepository(clone);
      const origin = await openOrigin(transport === "http" ? url : bare, { env: {} });
      await origin.fetch([first], objects);
      // A commit and its trees without a blob, as an interrupted copy by someone else leaves it.
      for (const name of [second, `${second}^{tree}`, `${second}:dir`, `${second}:dir/c.txt`]) {
        const raw = spawnSync("git", ["cat-file", git(work, "cat-file", "-t", name), name], {
          cwd: work,
        });
        objects.write(git(work, "cat-file", "-t", name) as "blob", raw.stdout);
      }
      await origin.fetch([second], objects, { haves: [first] });
      assert.equal(git(clone, "cat-file", "-p", `${second}:dir/b.txt`), "2");
      const asked = server.log.length;
      await origin.fetch([second], objects, { haves: [first] });
      await origin.fetch([second, first], objects);
      assert.equal(server.log.length, asked);
      origin.close();
    }));
}

test("what a branch of the server holds is not sent again", () =>
  withServer(async ({ bare, work, push, server }) => {
    const feat = commit(work, "feat", { "large.bin": randomBytes(200_000) });
    git(work, "push", "-q", bare, "HEAD:refs/heads/feat");
    const outcome = await push([{ ref: "refs/weave/main/queue", old: null, new: feat }]);
    assert.deepEqual(outcome, { status: "won" });
    assert.ok(Number(server.log.at(-1)!.headers["content-length"]) < 1000);
  }));

test("a clone that the server has left behind sends what is new, not its history", () =>
  withServer(async ({ bare, work, server, open }) => {
    write(work, "large", randomBytes(2_000_000));
    git(work, "add", "large");
    git(work, "commit", "-q", "-m", "large");
    git(work, "push", "-q", bare, "main");
    const other = join(tempDir(), "other");
    git(work, "clone", "-q", bare, other);
    const away = commit(other, "away", { "away.txt": "away\n" });
    git(other, "push", "-q", bare, "main");
    const mine = commit(work, "mine", { "mine.txt": "mine\n" });

    const repository = openRepository(work);
    assert.equal(repository.objects.has(away), false);
    const origin = await open({ repository });
    const outcome = await origin.push(
      [{ ref: "refs/weave/main/queue", old: null, new: mine }],
      repository.objects,
      { remoteHas: [away] },
    );
    assert.equal(outcome.status, "won");
    const sent = server.log.findLast(({ url }) => url.endsWith("/git-receive-pack"))!;
    const size = Number(sent.headers["content-length"]);
    assert.ok(size < 10_000, `${size} bytes`);
    assert.equal(tryGit(bare, ["fsck", "--no-dangling"]).status, 0);
    // A server that can't be asked gets more than it needs, and everything it needs.
    server.oldProtocol = true;
    const old = await open({ repository });
    const more = await old.push(
      [{ ref: "refs/weave/main/done", old: null, new: commit(work, "more", { more: "m\n" }) }],
      openRepository(work).objects,
      { remoteHas: [away] },
    );
    assert.equal(more.status, "won");
    origin.close();
    old.close();
  }));
