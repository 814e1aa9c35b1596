import assert from "node:assert/strict";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { isAgentqError } from "../../src/errors.ts";
import { openOrigin } from "../../src/git/origin.ts";

test("a server that isn't there is told in words, over http and git", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  for (const scheme of ["http", "git"]) {
    const origin = await openOrigin(`${scheme}://127.0.0.1:${port}/x.git`, { base: "/" });
    await assert.rejects(
      origin.refs(["refs/heads/"]),
      (error) =>
        isAgentqError(error, "origin-unreachable") &&
        /nothing accepts connections there \(ECONNREFUSED\)/.test(error.message),
    );
    origin.close();
  }
});
