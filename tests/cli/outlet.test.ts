import { test } from "node:test";
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import fc from "fast-check";
import { createOutlet } from "../../cli/output/outlet.ts";

/** A reader that takes at most as many bytes as it was allowed. */
function reader() {
  const read: Uint8Array[] = [];
  let allowed = 0;
  return {
    allow: (bytes: number) => void (allowed = bytes),
    text: () => Buffer.concat(read).toString("latin1"),
    take(bytes: Uint8Array) {
      const taken = Math.min(allowed, bytes.length);
      read.push(bytes.slice(0, taken));
      allowed -= taken;
      return taken;
    },
    pending: () => 0,
  };
}

const MISSING = /\n?agentq: (\d+) bytes are missing here: nobody read them in time\n/g;

test("what is said arrives in order, and what doesn't is counted where it is missing", () => {
  const step = fc.oneof(
    fc.record({ say: fc.nat(40), last: fc.boolean() }),
    fc.record({ allow: fc.nat(100) }),
  );
  fc.assert(fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
    const to = reader();
    const outlet = createOutlet(to, 64);
    /** Every byte that was said, each unlike its neighbours. */
    let all = "";
    const words: { at: number; last: boolean; text: string }[] = [];
    for (const each of steps) {
      if ("allow" in each) to.allow(each.allow);
      else {
        const text = Array.from(
          { length: each.say },
          (_, i) => String.fromCharCode(0xa0 + (all.length + i) % 95),
        ).join("");
        words.push({ at: all.length, last: each.last, text });
        all += text;
        outlet.say(Buffer.from(text, "latin1"), each.last);
      }
    }
    to.allow(Infinity);
    assert.equal(outlet.settle(0, 0), true);
    // Each gap is as long as it says: the position in all that was said comes out exactly.
    let position = 0;
    let rest = to.text();
    for (let gap = MISSING.exec(rest);; gap = MISSING.exec(rest)) {
      const said = rest.slice(0, gap?.index);
      assert.equal(said, all.slice(position, position + said.length));
      position += said.length;
      if (gap === null) break;
      position += Number(gap[1]);
      rest = rest.slice(gap.index + gap[0].length);
      MISSING.lastIndex = 0;
    }
    assert.equal(position, all.length);
    for (const { last, text } of words) if (last) assert.ok(to.text().includes(text));
  }));
});

test("the bound holds, and begins anew once the reader has caught up", () => {
  const to = reader();
  const outlet = createOutlet(to, 10);
  for (const text of ["12345\n", "789\n", "no room\n", "x\n"]) outlet.say(Buffer.from(text));
  assert.equal(to.text(), "");
  assert.equal(outlet.settle(0, 0), false);
  to.allow(Infinity);
  outlet.say(Buffer.from("more\n"));
  outlet.say(Buffer.from("again\n"));
  assert.equal(
    to.text(),
    "12345\n789\nagentq: 15 bytes are missing here: nobody read them in time\nagain\n",
  );
});

test("a caller may use its bytes again", () => {
  const to = reader();
  const outlet = createOutlet(to);
  const bytes = Buffer.from("ab");
  outlet.say(bytes);
  bytes.fill("x");
  to.allow(Infinity);
  assert.equal(outlet.settle(0, 0), true);
  assert.equal(to.text(), "ab");
});
