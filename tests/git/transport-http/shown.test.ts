/** Refs that a server takes and doesn't show to readers: a queue can't be kept in them. */
import assert from "node:assert/strict";
import { chmodSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { openOrigin } from "../../../src/git/origin.ts";
import { openRepository } from "../../../src/git/repository.ts";
import type { PushOutcome } from "../../../src/git/types.ts";
import { commit, git, makeRepo, tempDir, write } from "../../helpers/git.ts";
import { type GitServer, serveGit } from "./server.ts";

const QUEUE = "refs/weave/main/queue";
const LOCK = "refs/weave/main/lock";

interface Setup {
  bare: string;
  first: string;
  server: GitServer;
  /** Creates these refs. */
  make(...refs: string[]): Promise<PushOutcome>;
  /** Those below refs/weave/ that are there. */
  there(): string;
}

function hook(bare: string, name: string, script: string): void {
  write(bare, `hooks/${name}`, `#!/bin/sh\n${script}\n`);
  chmodSync(join(bare, "hooks", name), 0o755);
}

function refused(outcome: PushOutcome, hint: RegExp): void {
  assert.ok(outcome.status === "refused", JSON.stringify(outcome));
  assert.match(outcome.message, /^refs\/weave\/main\/\w+: .*uploadpack\.hideRefs/);
  assert.match(outcome.hint ?? "", hint);
}

for (const oldProtocol of [false, true]) {
  const on = (name: string, body: (setup: Setup) => Promise<void>, shown = 300) =>
    test(`protocol ${oldProtocol ? 0 : 2}: ${name}`, async () => {
      const root = tempDir();
      const work = makeRepo();
      const first = commit(work, "first", { "a.txt": "a\n" });
      git(root, "clone", "-q", "--bare", work, "repo.git");
      const bare = join(root, "repo.git");
      git(bare, "config", "http.receivepack", "true");
      git(bare, "config", "uploadpack.hideRefs", "refs/weave");
      const server = await serveGit(root);
      server.oldProtocol = oldProtocol;
      const origin = await openOrigin(`${server.url}/repo.git`, { env: {}, timeouts: { shown } });
      try {
        await body({
          bare,
          first,
          server,
          make: (...refs) =>
            origin.push(
              refs.map((ref) => ({ ref, old: null, new: first })),
              openRepository(work).objects,
              { remoteHas: [first] },
            ),
          there: () => git(bare, "for-each-ref", "--format=%(refname)", "refs/weave/"),
        });
      } finally {
        origin.close();
        await server.close();
      }
    });

  on("the first push of a ref that readers aren't shown is taken back and refused", async (at) => {
    for (const refs of [[QUEUE], [LOCK, QUEUE]]) {
      refused(await at.make(...refs), /Nothing was changed\.$/);
      assert.equal(at.there(), "");
    }
    git(at.bare, "config", "--unset", "uploadpack.hideRefs");
    assert.deepEqual(await at.make(QUEUE), { status: "won" });
    assert.equal(at.there(), QUEUE);
  });

  on("what can't be taken back is said to be there", async (at) => {
    hook(at.bare, "update", "case $3 in 0000*) exit 1;; esac");
    refused(await at.make(QUEUE), /could not be taken back/);
    assert.equal(at.there(), QUEUE);
  });

  on(
    "one that is there already is refused by that name, before anything is changed",
    async (at) => {
      git(at.bare, "update-ref", LOCK, at.first);
      refused(await at.make(LOCK), /Nothing was changed\.$/);
      refused(await at.make(LOCK, QUEUE), /Nothing was changed\.$/);
      assert.equal(at.there(), LOCK);
    },
  );

  on("a server whose readers are late is waited for", async (at) => {
    let asked = 0;
    let pushed = false;
    at.server.intercept = ({ method, url }) => {
      pushed ||= method === "POST" && url.endsWith("git-receive-pack");
      const lists = oldProtocol
        ? url.endsWith("service=git-upload-pack")
        : method === "POST" && url.endsWith("git-upload-pack");
      if (pushed && lists && ++asked === 3) {
        git(at.bare, "config", "--unset", "uploadpack.hideRefs");
      }
      return false;
    };
    assert.deepEqual(await at.make(QUEUE), { status: "won" });
    assert.equal(at.there(), QUEUE);
  }, 60_000);

  on("another refusal is told in its own words", async (at) => {
    hook(at.bare, "pre-receive", "echo no weaving here; exit 1");
    const outcome = await at.make(QUEUE);
    assert.ok(outcome.status === "refused");
    assert.match(outcome.remoteOutput, /no weaving here/);
    assert.equal(outcome.hint, undefined);
  });
}
