/** An origin that takes its time: what is said meanwhile. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { tellingOfWaits } from "../../cli/slow-origin.ts";
import type { Origin } from "../../src/git/types.ts";
import { createFakeOrigin } from "../landing/fake-origin.ts";

const origin = createFakeOrigin().as("me");

test("what an origin doesn't answer for a while is said, again and again, until it does", async () => {
  const said: string[] = [];
  const answer = Promise.withResolvers<void>();
  const slow: Origin = {
    ...origin,
    async refs(prefixes) {
      await answer.promise;
      return await origin.refs(prefixes);
    },
  };
  const say = (text: string) => {
    said.push(text);
    if (said.length === 3) answer.resolve();
  };
  const refs = await tellingOfWaits(slow, say, { first: 10, each: 1000 / 50 }).refs(["refs/"]);
  assert.deepEqual(refs, await origin.refs(["refs/"]));
  assert.deepEqual(said, [
    "waiting for fake://origin: 0.01 s by now",
    "waiting for fake://origin: 0.03 s by now",
    "waiting for fake://origin: 0.05 s by now",
  ]);
});

test("of what is answered at once, or fails, nothing is said, and nothing is left that would", async () => {
  const told = tellingOfWaits(
    { ...origin, readCommits: () => Promise.reject(new Error("no")) },
    () => assert.fail("said"),
    { first: 5, each: 5 },
  );
  await assert.rejects(told.readCommits([]), /no/);
  await new Promise((resolve) => setTimeout(resolve, 20));
});
