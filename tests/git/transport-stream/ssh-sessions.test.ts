/** The embedded ssh client on servers that let one login have few sessions. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { isAgentqError } from "../../../src/errors.ts";
import { openOrigin } from "../../../src/git/origin.ts";
import { openRepository } from "../../../src/git/repository.ts";
import { commit, git, makeRepo, tempDir } from "../../helpers/git.ts";
import { type SshServer, startSshd } from "../../helpers/git-servers.ts";

const work = makeRepo();
const first = commit(work, "first", { "a.txt": "a\n" });

function bareRepository(): string {
  const bare = join(tempDir(), "repo.git");
  git("/", "clone", "-q", "--bare", work, bare);
  return bare;
}

const open = ({ user, port, home }: SshServer, bare: string) =>
  openOrigin(`ssh://${user}@127.0.0.1:${port}${bare}`, { env: { PATH: "", HOME: home } });

for (const sessions of [1, 2]) {
  test(`MaxSessions ${sessions}: everything works`, async () => {
    const bare = bareRepository();
    const sshd = await startSshd({ config: `MaxSessions ${sessions}` });
    try {
      const origin = await open(sshd, bare);
      for (let round = 0; round < 4; round++) {
        const { refs } = await origin.refs(["refs/heads/"]);
        assert.equal(refs.get("refs/heads/main"), first);
        // The connection of the list is kept for this, while the push needs one too.
        await origin.readCommits([first]);
        const update = { ref: `refs/heads/r${round}`, old: null, new: first };
        const outcome = await origin.push([update], openRepository(work).objects);
        assert.deepEqual(outcome, { status: "won" });
      }
      // A channel that is on its way out takes the place of one: never more than one login for each.
      assert.ok(sshd.logins() <= 8, `${sshd.logins()} logins for 8 channels`);

      const all = await Promise.all(Array.from({ length: 6 }, () => origin.refs(["refs/heads/r"])));
      for (const { refs } of all) assert.equal(refs.size, 4);
      origin.close();
    } finally {
      await sshd.stop();
    }
  });
}

test("a server that opens no session at all is told as that, and a push to it as never sent", async () => {
  const bare = bareRepository();
  const sshd = await startSshd({ config: "MaxSessions 0" });
  const isTold = (error: unknown) => {
    assert.ok(isAgentqError(error, "origin-unreachable"), `${error}`);
    assert.match(error.message, /opens no channel/);
    assert.match(error.hint, /MaxSessions/);
    assert.equal(error.retryable, false);
    return true;
  };
  try {
    const origin = await open(sshd, bare);
    await assert.rejects(origin.refs(["refs/"]), isTold);
    const update = { ref: "refs/heads/x", old: null, new: first };
    await assert.rejects(origin.push([update], openRepository(work).objects), isTold);
    origin.close();
  } finally {
    await sshd.stop();
  }
});
