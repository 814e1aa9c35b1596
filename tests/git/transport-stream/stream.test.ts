import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import type { Buffer } from "node:buffer";
import { chmodSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import net, { type AddressInfo } from "node:net";
import { join } from "node:path";
import process from "node:process";
import { after, describe, test } from "node:test";
import { isAgentqError } from "../../../src/errors.ts";
import { openOrigin, type OriginOptions } from "../../../src/git/origin.ts";
import { openRepository } from "../../../src/git/repository.ts";
import type { Origin, RefUpdate } from "../../../src/git/types.ts";
import { commit, git, makeRepo, tempDir, tryGit, write } from "../../helpers/git.ts";
import { checkPushFromPart, checkReading, makeTwo } from "../origin-checks.ts";
import {
  type SshServer,
  type SshServerOptions,
  startDaemon,
  startSshd,
} from "../../helpers/git-servers.ts";

interface Place {
  /** Where agents find a repository of `root`. */
  url(path: string): string;
  readonly env: Record<string, string>;
  readonly ssh: SshServer | null;
}

const root = tempDir();
const servers: { stop(): Promise<void> }[] = [];
after(() => Promise.all(servers.map((server) => server.stop())));

const overSsh = (server: SshServer, env: Record<string, string>): Place => ({
  url: (path) => `ssh://${server.user}@127.0.0.1:${server.port}${path}`,
  env,
  ssh: server,
});

const PATH = process.env.PATH ?? "/usr/bin:/bin";

/**
 * By the system's ssh, over one login as its ControlPersist gives it: that each connection can have a
 * login of its own is shown in ssh.test.ts, and a hundred of them show no more.
 */
async function bySystem(options?: SshServerOptions): Promise<Place> {
  const server = await startSshd(options);
  const path = join(tempDir("aq-"), "c");
  const ssh = `${server.ssh} -o ControlMaster=auto -o ControlPath=${path} -o ControlPersist=60`;
  servers.push({
    stop() {
      spawnSync("ssh", ["-o", `ControlPath=${path}`, "-O", "exit", "h"]);
      return server.stop();
    },
  });
  return overSsh(server, { PATH, GIT_SSH_COMMAND: ssh });
}

/** Each transport and each way in which a server meets it, started when first needed. */
const places: Record<string, () => Promise<Place>> = {
  "ssh, protocol 2": () => bySystem(),
  "ssh, protocol 2 insisted upon": () => bySystem({ acceptProtocol: false }),
  "ssh, git-shell with protocol 0": () => bySystem({ acceptProtocol: false, restricted: true }),
  "embedded ssh": async () => {
    const server = await startSshd({ hashed: true });
    servers.push(server);
    return overSsh(server, { PATH: "", HOME: server.home });
  },
  "embedded ssh, git-shell with protocol 0": async () => {
    const options = { acceptProtocol: false, restricted: true, hostKey: "rsa", userKey: "rsa" };
    const server = await startSshd(options as Parameters<typeof startSshd>[0]);
    servers.push(server);
    return overSsh(server, { PATH: "", HOME: server.home });
  },
  "git daemon": async () => {
    const { port, stop } = await startDaemon(root);
    servers.push({ stop });
    return {
      url: (path) => `git://127.0.0.1:${port}${path.slice(root.length)}`,
      env: {},
      ssh: null,
    };
  },
};

/** Ways to meet a transport that is tested whole under another name. */
const WAYS = [
  "ssh, protocol 2 insisted upon",
  "ssh, git-shell with protocol 0",
  "embedded ssh, git-shell with protocol 0",
];

let count = 0;

interface Setup extends Place {
  bare: string;
  work: string;
  first: string;
  origin: Origin;
  push(updates: readonly RefUpdate[], remoteHas?: string[]): ReturnType<Origin["push"]>;
  open(options?: OriginOptions): Promise<Origin>;
}

async function setup(place: Place, body: (setup: Setup) => Promise<void>): Promise<void> {
  const work = makeRepo();
  const first = commit(work, "first", { "a.txt": "a\n", "dir/b.txt": "b\n" });
  // A name that a careless shell would take apart.
  const bare = join(root, `it's $(a) repo! ${++count}.git`);
  git(root, "clone", "-q", "--bare", work, bare);
  const url = place.url(encodeURI(bare));
  const open = (extra: OriginOptions = {}) => openOrigin(url, { env: place.env, ...extra });
  const origin = await open();
  const repository = openRepository(work);
  try {
    await body({
      ...place,
      bare,
      work,
      first,
      origin,
      open,
      push: (updates, remoteHas = [first]) =>
        origin.push(updates, repository.objects, { remoteHas }),
    });
  } finally {
    origin.close();
  }
}

function hook(bare: string, name: string, script: string): void {
  write(bare, `hooks/${name}`, `#!/bin/sh\n${script}`);
  chmodSync(join(bare, "hooks", name), 0o755);
}

for (const [name, make] of Object.entries(places)) {
  describe(name, () => {
    let made: Promise<Place> | undefined;
    const everywhere = (title: string, body: (setup: Setup) => Promise<void>) =>
      test(title, { timeout: 60_000 }, async () => setup(await (made ??= make()), body));
    // What the server's way of meeting us can't change is shown once a transport: logins take time.
    const on = WAYS.includes(name) ? () => {} : everywhere;

    everywhere(
      "refs of the wanted prefixes and HEAD, each time as they are",
      async ({ bare, origin, first, work }) => {
        git(bare, "update-ref", "refs/weave/main/queue", first);
        git(bare, "update-ref", "refs/other/x", first);
        const { refs, head } = await origin.refs(["refs/heads/", "refs/weave/main/"]);
        assert.deepEqual([...refs], [["refs/heads/main", first], ["refs/weave/main/queue", first]]);
        assert.equal(head, "refs/heads/main");
        const second = commit(work, "second");
        git(work, "push", "-q", bare, "main");
        git(bare, "pack-refs", "--all");
        const later = await origin.refs(["refs/heads/"]);
        assert.deepEqual([...later.refs], [["refs/heads/main", second]]);
      },
    );

    everywhere("reading, fetching and pushing", async ({ bare, work, first, origin, push }) => {
      const { feat, second } = makeTwo({ bare, work });
      await origin.refs(["refs/"]);
      const updates = [
        { ref: "refs/heads/main", old: first, new: second },
        { ref: "refs/weave/main/done", old: null, new: second },
      ];
      assert.deepEqual(await push(updates), { status: "won" });
      assert.equal(git(bare, "rev-parse", "main"), second);
      assert.equal(git(bare, "ls-tree", "-r", "main"), git(work, "ls-tree", "-r", "main"));
      assert.deepEqual(await push(updates), { status: "won" }, "a repetition of what arrived");

      await checkReading(origin, { bare, work, first, feat, second });
    });

    everywhere(
      "a commit behind the refs is read and fetched",
      async ({ bare, work, first, origin }) => {
        const tips = [commit(work, "2"), commit(work, "3"), commit(work, "4", { c: "c\n" })];
        git(work, "push", "-q", bare, "main");
        assert.deepEqual([...(await origin.readCommits([first, tips[0]!])).keys()], [
          first,
          tips[0]!,
        ]);
        const clone = tempDir();
        git(clone, "init", "-q", ".");
        const target = openRepository(clone).objects;
        await origin.fetch([tips[1]!], target);
        assert.equal(git(clone, "rev-list", "--objects", tips[1]!).split("\n").length, 7);
      },
    );

    on("a push of megabytes", async ({ bare, work, first, push }) => {
      const second = commit(work, "big", {
        "big.bin": randomBytes(6_000_000),
        "more.bin": randomBytes(3_000_000),
      });
      const outcome = await push([{ ref: "refs/heads/main", old: first, new: second }]);
      assert.deepEqual(outcome, { status: "won" });
      assert.equal(git(bare, "fsck", "--full", "--strict"), "");
      assert.equal(git(bare, "rev-parse", "main^{tree}"), git(work, "rev-parse", "main^{tree}"));
    });

    on("a lost race is told, and nothing moves", async ({ bare, work, first, push }) => {
      const second = commit(work, "second");
      const outcome = await push([
        { ref: "refs/heads/main", old: second, new: first },
        { ref: "refs/heads/other", old: null, new: first },
      ]);
      assert.ok(outcome.status === "lost");
      assert.deepEqual(outcome.refs, ["refs/heads/main"]);
      const exists = await push([{ ref: "refs/heads/main", old: null, new: second }]);
      assert.equal(exists.status, "lost");
      const gone = await push([{ ref: "refs/heads/gone", old: first, new: second }]);
      assert.equal(gone.status, "lost");
      assert.equal(
        git(bare, "for-each-ref", "--format=%(refname) %(objectname)"),
        `refs/heads/main ${first}`,
      );
    });

    on("a race that is lost while the hook runs", async ({ bare, work, first, push }) => {
      const second = commit(work, "second");
      const third = commit(work, "third");
      git(work, "push", "-q", bare, `${third}:refs/heads/side`);
      hook(
        bare,
        "pre-receive",
        `unset GIT_QUARANTINE_PATH\ngit update-ref refs/heads/main ${third}\n`,
      );
      const outcome = await push([{ ref: "refs/heads/main", old: first, new: second }]);
      assert.equal(outcome.status, "lost");
      assert.equal(git(bare, "rev-parse", "main"), third);
    });

    everywhere(
      "what is asked for grows out of a history that is here, told newest first",
      async ({ bare, work, origin }) => {
        // Each of these has but one parent: a server that knows the first knows that we have the others.
        const here = [commit(work, "2"), commit(work, "3"), commit(work, "4")].reverse();
        git(work, "push", "-q", bare, "main");
        const clone = tempDir();
        git(clone, "clone", "-q", bare, ".");
        const next = commit(work, "5", { "new.txt": "new\n" });
        git(work, "push", "-q", bare, "main");
        await origin.fetch([next], openRepository(clone).objects, { haves: here });
        assert.equal(git(clone, "rev-list", "--count", next), "5");
        git(clone, "update-ref", "refs/heads/next", next);
        assert.equal(git(clone, "fsck", "--full", "--strict"), "");
      },
    );

    everywhere(
      "a hook that declines one ref refuses all, once, in its own words",
      async ({ bare, work, first, push }) => {
        const log = join(bare, "count");
        hook(
          bare,
          "update",
          `echo "$1" >> count\ncase "$1" in refs/weave/*/done) echo "no results here" >&2; exit 1;; esac\n`,
        );
        const second = commit(work, "second");
        const outcome = await push([
          { ref: "refs/heads/main", old: first, new: second },
          { ref: "refs/weave/main/done", old: null, new: second },
        ]);
        assert.ok(outcome.status === "refused");
        assert.match(outcome.remoteOutput, /no results here/);
        assert.equal(readFileSync(log, "utf8").match(/done/g)?.length, 1);
        assert.equal(git(bare, "for-each-ref", "--format=%(objectname)"), first);
      },
    );

    on(
      "a server that dies after it took the push: unknown, and the refs tell",
      async ({ bare, work, first, push, open }) => {
        const second = commit(work, "second", { c: "c\n" });
        // The parent of a hook is receive-pack.
        const moved = `[ "$(git rev-parse refs/heads/main)" = ${second} ]`;
        hook(
          bare,
          "reference-transaction",
          `[ "$1" = committed ] && ${moved} && kill -9 $PPID\n:\n`,
        );
        const outcome = await push([{ ref: "refs/heads/main", old: first, new: second }]);
        assert.equal(outcome.status, "unknown");
        assert.equal(git(bare, "rev-parse", "main"), second);
        const again = await open();
        assert.equal((await again.refs(["refs/heads/"])).refs.get("refs/heads/main"), second);
        again.close();
        // After its report, its death is no news.
        hook(bare, "reference-transaction", ":\n");
        hook(bare, "post-receive", "kill -9 $PPID\n");
        const third = commit(work, "third");
        const later = await push([{ ref: "refs/heads/main", old: second, new: third }]);
        assert.deepEqual(later, { status: "won" });
      },
    );

    on(
      "what post-receive leaves running is not waited for",
      async ({ bare, work, first, push }) => {
        // It ends only when it is told to, after the push.
        const hold = `mkfifo hold; (read -r line < hold; echo "$line" > heard) &`;
        hook(bare, "post-receive", `echo said >&2; ${hold}\n`);
        const second = commit(work, "second");
        const outcome = await push([{ ref: "refs/heads/main", old: first, new: second }]);
        assert.deepEqual(outcome, { status: "won" });
        writeFileSync(join(bare, "hold"), "go\n");
        while (!existsSync(join(bare, "heard"))) await new Promise((done) => setTimeout(done, 10));
      },
    );

    on(
      "a chain that is hidden from readers or from all is refused by name",
      async ({ bare, first, push }) => {
        git(bare, "update-ref", "refs/weave/main/queue", first);
        for (const key of ["uploadpack.hideRefs", "transfer.hideRefs"]) {
          git(bare, "config", key, "refs/weave");
          const outcome = await push([{ ref: "refs/weave/main/queue", old: null, new: first }]);
          assert.ok(outcome.status === "refused", `${key}: ${JSON.stringify(outcome)}`);
          assert.match(outcome.message, /^refs\/weave\/main\/queue: .*hid(es|den)/);
          git(bare, "config", "--unset", key);
        }
      },
    );

    on(
      "a chain that is hidden from readers is taken back where a push has just made it",
      async ({ bare, work, first, open }) => {
        git(bare, "config", "uploadpack.hideRefs", "refs/weave");
        const origin = await open({ timeouts: { shown: 100 } });
        const outcome = await origin.push(
          [{ ref: "refs/weave/main/queue", old: null, new: first }],
          openRepository(work).objects,
        );
        origin.close();
        assert.ok(outcome.status === "refused", JSON.stringify(outcome));
        assert.match(outcome.message, /^refs\/weave\/main\/queue: .*uploadpack\.hideRefs/);
        assert.match(outcome.hint ?? "", /Nothing was changed\.$/);
        assert.equal(git(bare, "for-each-ref", "refs/weave/"), "");
      },
    );

    on(
      "a lock that another push holds is told as one, by name, and nothing is refused over it",
      async ({ bare, first, push }) => {
        const update = { ref: "refs/weave/main/queue", old: null, new: first };
        write(bare, "refs/weave/main/queue.lock", "");
        await assert.rejects(push([update]), (error) => {
          assert.ok(isAgentqError(error, "ref-locked"), String(error));
          assert.ok(error.retryable);
          assert.equal(error.details?.ref, update.ref);
          assert.match(
            error.message,
            /^refs\/weave\/main\/queue is locked.*queue\.lock': File exists/,
          );
          return true;
        });
        rmSync(join(bare, "refs/weave/main/queue.lock"));
        assert.deepEqual(await push([update]), { status: "won" });
      },
    );

    on(
      "a server without atomic is refused before anything is sent",
      async ({ bare, work, first, push }) => {
        git(bare, "config", "receive.advertiseAtomic", "false");
        hook(bare, "pre-receive", "touch ran\n");
        const second = commit(work, "second");
        await assert.rejects(
          push([{ ref: "refs/heads/main", old: first, new: second }]),
          (error) => isAgentqError(error, "atomic-unsupported"),
        );
        assert.equal(existsSync(join(bare, "ran")), false);
      },
    );

    on(
      "a push that is too large is refused in the server's words",
      async ({ bare, work, first, push }) => {
        git(bare, "config", "receive.maxInputSize", "100000");
        const second = commit(work, "big", { "big.bin": randomBytes(4_000_000) });
        const outcome = await push([{ ref: "refs/heads/main", old: first, new: second }]).catch(
          (error) => error,
        );
        // It hangs up in the middle: its words, and what became of the last bytes, may go with that.
        assert.ok(
          ["refused", "unknown"].includes(outcome.status) ||
            isAgentqError(outcome, "origin-unreachable"),
          JSON.stringify(outcome),
        );
        assert.equal(git(bare, "rev-parse", "main"), first);
      },
    );

    on("no repository there", async ({ url, env, work, first }) => {
      const origin = await openOrigin(url(encodeURI(join(root, "none.git"))), { env });
      await assert.rejects(
        origin.refs(["refs/"]),
        (error) => isAgentqError(error, "origin-not-found"),
      );
      const objects = openRepository(work).objects;
      await assert.rejects(
        origin.push([{ ref: "refs/heads/x", old: null, new: first }], objects),
        (error) => isAgentqError(error, "origin-not-found", "forbidden"),
      );
      origin.close();
    });

    on("an empty repository has a HEAD", async ({ url, env }) => {
      const empty = join(root, `empty${++count}.git`);
      git(root, "init", "-q", "--bare", "-b", "trunk", empty);
      const origin = await openOrigin(url(empty), { env });
      const { refs, head } = await origin.refs(["refs/"]);
      assert.equal(refs.size, 0);
      assert.equal(head, "refs/heads/trunk");
      origin.close();
    });

    everywhere(
      "clones that lack history push what is new, also when the branch has moved",
      ({ bare, work, open }) =>
        checkPushFromPart({ bare, work }, (repository) => open({ repository })),
    );

    on("an aborted push is stopped and says so", async ({ bare, work, first, origin }) => {
      const second = commit(work, "second");
      hook(bare, "pre-receive", "touch started\nsleep 30\n");
      const controller = new AbortController();
      const pushing = origin.push(
        [{ ref: "refs/heads/main", old: first, new: second }],
        openRepository(work).objects,
        { signal: controller.signal },
      );
      while (!existsSync(join(bare, "started"))) await new Promise((done) => setTimeout(done, 10));
      controller.abort();
      const outcome = await pushing;
      assert.equal(outcome.status, "unknown");
      await assert.rejects(
        origin.refs(["refs/"], controller.signal),
        (error) => error === controller.signal.reason,
      );
    });

    on("silence ends", async ({ bare, work, first, open }) => {
      const origin = await open({ timeouts: { idle: 1500 } });
      const second = commit(work, "second");
      // Closed output, so that nothing keeps the side band alive.
      hook(bare, "pre-receive", "exec >/dev/null 2>&1\nsleep 30\n");
      const outcome = await origin.push(
        [{ ref: "refs/heads/main", old: first, new: second }],
        openRepository(work).objects,
      );
      assert.ok(outcome.status === "unknown");
      assert.match(outcome.message, /silent for 1.5 s/);
      assert.equal(git(bare, "rev-parse", "main"), first);
      origin.close();
    });

    on(
      "concurrent readers don't meet each other's answers",
      async ({ bare, work, origin, first }) => {
        const second = commit(work, "second");
        git(work, "push", "-q", bare, "main");
        const results = await Promise.all([
          origin.refs(["refs/heads/"]),
          origin.readCommits([first]),
          origin.refs(["refs/"]),
          origin.readCommits([second, first]),
        ]);
        assert.equal(results[0].refs.get("refs/heads/main"), second);
        assert.deepEqual([...results[1].keys()], [first]);
        assert.equal(results[2].refs.size, 1);
        assert.deepEqual([...results[3].keys()].sort(), [first, second].sort());
        assert.equal(tryGit(bare, ["fsck"]).status, 0);
      },
    );
  });
}

test("git daemon without receive-pack: a push is forbidden, reading is not", async () => {
  const { port, stop } = await startDaemon(root, { push: false });
  const place = {
    url: (path: string) => `git://127.0.0.1:${port}${path.slice(root.length)}`,
    env: {},
    ssh: null,
  };
  try {
    await setup(place, async ({ origin, push, first }) => {
      assert.equal((await origin.refs(["refs/"])).refs.size, 1);
      await assert.rejects(
        push([{ ref: "refs/heads/x", old: null, new: first }]),
        (error) => isAgentqError(error, "forbidden") && /receive-pack/.test(error.hint),
      );
    });
  } finally {
    await stop();
  }
});

test("git://: what is cut off is read again, on a new connection, and an end to that", async () => {
  const { port, stop } = await startDaemon(root);
  const work = makeRepo();
  const first = commit(work, "first");
  git(root, "clone", "-q", "--bare", work, join(root, "cut.git"));
  /** Bytes of the server that the connections pass on, one after the other. */
  let limits: number[] = [];
  let connections = 0;
  const relay = net.createServer((client) => {
    connections++;
    let left = limits.shift() ?? Infinity;
    const server = net.connect(port, "127.0.0.1");
    client.on("error", () => {});
    server.on("error", () => {});
    client.on("close", () => server.destroy());
    client.on("data", (chunk) => server.write(chunk));
    server.on("data", (chunk: Buffer) => {
      client.write(chunk.subarray(0, Math.min(left, chunk.length)));
      if ((left -= chunk.length) < 0) client.end();
    });
    server.on("end", () => client.end());
  });
  await new Promise<void>((resolve) => relay.listen(0, "127.0.0.1", () => resolve()));
  const open = () =>
    openOrigin(`git://127.0.0.1:${(relay.address() as AddressInfo).port}/cut.git`, { env: {} });
  const read = async (...cuts: number[]) => {
    limits = cuts;
    connections = 0;
    const origin = await open();
    try {
      return (await origin.refs(["refs/heads/"])).refs.get("refs/heads/main");
    } finally {
      origin.close();
    }
  };
  try {
    assert.equal(await read(), first);
    assert.equal(connections, 1);
    // In a length, in the first packet, behind it, in the list of what it can do, in the list of refs.
    for (const cut of [2, 9, 14, 60, 200]) {
      assert.equal(await read(cut), first, `cut at ${cut}`);
      assert.equal(connections, 2, `cut at ${cut}`);
    }
    await assert.rejects(
      read(60, 60, 60, 60),
      (error) => isAgentqError(error, "protocol-error") && error.retryable,
    );
    assert.equal(connections, 4);
  } finally {
    relay.close();
    await stop();
  }
});
