/** The cache behind packs: what it keeps, and that nothing is left of parts that are done with. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createBoundedCache } from "../../src/git/bounded-cache.ts";

test("what was asked for lately is kept, within the budget", () => {
  const cache = createBoundedCache(100);
  const part = cache.part<string>();
  for (let i = 0; i < 100; i++) {
    part.set(i, `value ${i}`, 10);
    assert.equal(part.get(0), "value 0");
  }
  const kept = Array.from({ length: 100 }, (_, i) => i).filter((i) => part.get(i) !== undefined);
  assert.ok(kept.length <= 11, String(kept));
  part.set(200, "too heavy", 26);
  assert.equal(part.get(200), undefined);
});

test("a part that was cleared is used again, and weighs nothing meanwhile", () => {
  const cache = createBoundedCache(100);
  const [one, other] = [cache.part<string>(), cache.part<string>()];
  for (let round = 0; round < 1000; round++) {
    one.set(round, "gone", 20);
    one.clear();
    assert.equal(one.get(round), undefined);
  }
  other.set(1, "here", 20);
  one.set(1, "here too", 20);
  assert.deepEqual([one.get(1), other.get(1)], ["here too", "here"]);
  cache.clear();
  assert.deepEqual([one.get(1), other.get(1)], [undefined, undefined]);
  one.set(2, "again", 20);
  assert.equal(one.get(2), "again");
});

test("packs come and go by the thousand: a cache that outlives them holds none of them", async () => {
  const cache = createBoundedCache(1 << 20);
  const lasting = cache.part<string>();
  const gone: WeakRef<object>[] = [];
  const comeAndGo = () => {
    for (let i = 0; i < 1000; i++) {
      const part = cache.part<object>();
      part.set(0, {}, 1);
      if (i % 2) part.clear();
      gone.push(new WeakRef(part));
    }
    // Parts that were never cleared: what they held goes with the turns of the budget.
    for (let i = 0; i < 64; i++) lasting.set(i, "", 1 << 17);
  };
  comeAndGo();
  const collect = globalThis as { Bun?: { gc(sync: boolean): void }; gc?: () => void };
  await new Promise((resolve) => setTimeout(resolve, 10));
  if (collect.Bun) collect.Bun.gc(true);
  else if (collect.gc) collect.gc();
  else for (let i = 0; i < 50; i++) new Array(1 << 20).fill({});
  await new Promise((resolve) => setTimeout(resolve, 10));
  const held = gone.filter((part) => part.deref() !== undefined).length;
  assert.ok(held < 100, `${held} of ${gone.length} are held`);
});
