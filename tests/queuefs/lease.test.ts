/** When a delivery may be taken back, under clocks that jump and owners that are gone. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { existsSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { storeBackend } from "../../src/queuefs/backends/store/backend.ts";
import type { QueueBackend } from "../../src/queuefs/contract.ts";
import { storePaths } from "../../src/store/layout.ts";
import type { LeaseClock, LeaseTime } from "../../src/queuefs/clock.ts";
import { bootClock, bootShift, systemClock } from "../../src/queuefs/clock.ts";
import { FOREIGN_LEASE_MS, judgeLease } from "../../src/queuefs/lease.ts";
import { callerOwner, ownsLease, parseOwner, workerOwner } from "../../src/queuefs/owner.ts";
import { processIdentity } from "../../src/platform/host.ts";
import { memoryBackend } from "../../src/queuefs/backends/memory.ts";
import { sqliteBackend } from "../../src/queuefs/backends/sqlite/backend.ts";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { tempDir } from "../helpers/git.ts";
import { bytes } from "./helpers/redis.ts";

const bootId = processIdentity().bootId;
const granted = (owner: string | null, lengthMs: number | null = 1000) => ({
  owner,
  grantedBoot: 50_000,
  grantedWall: 1_790_000_000_000,
  lengthMs,
});
const at = (bootMs: number, wallMs: number, boot: string | null = bootId): LeaseTime => ({
  boot: 50_000 + bootMs,
  bootId: boot,
  wall: 1_790_000_000_000 + wallMs,
});
const HOUR = 3_600_000;

describe("judgeLease()", () => {
  for (const [kind, owner] of [["worker", workerOwner()], ["caller", callerOwner("x")]] as const) {
    test(`holds a ${kind}'s lease for its length by the time since boot, whatever the wall clock says`, () => {
      const lease = granted(owner);
      for (const jump of [-10 * HOUR, -1, 0, 1, 10 * HOUR]) {
        assert.equal(judgeLease(lease, at(999, jump)), "held");
        assert.equal(judgeLease(lease, at(1000, jump)), "lease-expired");
      }
    });

    test(`lets a ${kind}'s lease of another boot run out by the wall clock, in either direction`, () => {
      const lease = granted(owner);
      for (const boot of ["another boot", null]) {
        assert.equal(judgeLease(lease, at(0, 999, boot)), "held");
        assert.equal(judgeLease(lease, at(0, -999, boot)), "held");
        assert.equal(judgeLease(lease, at(0, 1000, boot)), "lease-expired");
        assert.equal(judgeLease(lease, at(0, -HOUR, boot)), "lease-expired");
      }
    });
  }

  test("sees at once that a worker is gone, and shortens only leases that nobody renews", () => {
    const gone = workerOwner().split("~").map((part, i) => i === 2 ? "1" : part).join("~");
    assert.equal(judgeLease(granted(gone, HOUR), at(0, 0)), "owner-gone");
    assert.equal(judgeLease(granted(workerOwner(), HOUR), at(5000, 5000), 0), "held");
    assert.equal(judgeLease(granted(callerOwner(), HOUR), at(5000, 5000), 5000), "lease-expired");
    assert.equal(judgeLease(granted(callerOwner(), HOUR), at(4999, 4999), 5000), "held");
    assert.equal(judgeLease(granted(callerOwner(), 10), at(10, 10), HOUR), "lease-expired");
  });

  test("gives a program without leases an hour, or what the caller says", () => {
    const lease = { ...granted(null, null), grantedBoot: null };
    assert.equal(judgeLease(lease, at(0, FOREIGN_LEASE_MS - 1)), "held");
    assert.equal(judgeLease(lease, at(0, FOREIGN_LEASE_MS)), "lease-expired");
    assert.equal(judgeLease(lease, at(0, 2000), 2000), "lease-expired");
    assert.equal(judgeLease(lease, at(0, 1999), 2000), "held");
    assert.equal(judgeLease(lease, at(0, FOREIGN_LEASE_MS), 2 * FOREIGN_LEASE_MS), "held");
  });

  test("never robs a live worker within its lease, for any clocks and any owner text", () => {
    const live = workerOwner();
    fc.assert(fc.property(fc.nat(999), fc.integer(), fc.nat(), (boot, wall, stale) => {
      assert.equal(judgeLease(granted(live), at(boot, wall), stale), "held");
    }));
    fc.assert(fc.property(fc.string(), (owner) => {
      assert.notEqual(judgeLease(granted(owner), at(0, 0)), "owner-gone");
    }));
  });
});

describe("owners", () => {
  test("a worker's name can be read by others and proves it alive", () => {
    const parsed = parseOwner(workerOwner());
    assert.equal(parsed.kind, "worker");
    assert.equal(parsed.kind === "worker" && parsed.liveness(), "alive");
    assert.notEqual(workerOwner(), workerOwner());
    assert.ok(!workerOwner().includes("|"));
  });

  test("callers own what was taken in their name, in any boot, and nothing else", () => {
    const other = callerOwner("me").replace(/[^~]*$/, "other-boot");
    assert.ok(ownsLease(other, callerOwner("me")));
    assert.ok(!ownsLease(callerOwner("me2"), callerOwner("me")));
    assert.ok(!ownsLease(callerOwner("me"), callerOwner("m")));
    assert.ok(!ownsLease(workerOwner(), callerOwner("me")));
    assert.throws(() => callerOwner("a~b"), (error: { code?: string }) => error.code === "usage");
    assert.throws(() => callerOwner(""), (error: { code?: string }) => error.code === "usage");
  });

  test("the time since boot grows and is the same clock for every process", () => {
    const [a, b] = [systemClock(), systemClock()];
    assert.ok(b.boot >= a.boot);
    assert.ok(a.boot > 0);
  });
});

describe("the time since boot in a time namespace", () => {
  test("is the machine's", { timeout: 60_000 }, () => {
    const clock = new URL("../../src/queuefs/clock.ts", import.meta.url).href;
    const script = join(tempDir(), "clock.ts");
    writeFileSync(
      script,
      `const { systemClock } = await import(${JSON.stringify(clock)});\n` +
        `console.log(systemClock().boot);\nexport {};\n`,
    );
    const runs = process.versions.deno === undefined ? [] : ["run", "-A", "--no-check"];
    for (const seconds of [100_000, 1_000_000]) {
      const { stdout, stderr } = spawnSync(
        "unshare",
        [
          ...["-U", "-r", "-T", "-f", "--boottime", String(seconds), "--monotonic", "0"],
          ...[process.execPath, ...runs, script],
        ],
        { encoding: "utf8" },
      );
      const off = Number(stdout) - systemClock().boot;
      assert.ok(stdout !== "" && Math.abs(off) < 50_000_000, `${seconds}: ${off} ${stderr}`);
    }
  });

  test("is told from what the kernel says of the shift", () => {
    const text = (seconds: number, nanoseconds: number) =>
      `monotonic         500         0\nboottime   ${seconds}         ${nanoseconds}\n`;
    assert.equal(bootShift(text(0, 0)), 0);
    assert.equal(bootShift(text(1000, 500_000_000)), 1_000_500);
    assert.equal(bootShift(text(-2, 250_000_000)), -1750);
    assert.equal(bootShift(""), 0);
  });
});

describe("bootClock()", () => {
  const start = () => {
    const now = { uptime: 50_000, own: 7, wall: 1_790_000_000_000, reads: 0 };
    const clock = bootClock({ uptime: () => (now.reads++, now.uptime), own: () => now.own });
    const pass = (ms: number) => {
      now.uptime += ms;
      now.own += ms;
      now.wall += ms;
    };
    return { now, pass, read: () => clock(now.wall) };
  };

  test("reads the uptime once a second", () => {
    const { now, pass, read } = start();
    for (let i = 0; i < 1000; i++) {
      assert.equal(read(), now.uptime);
      pass(10);
    }
    assert.equal(now.reads, 10);
  });

  test("knows that the machine slept, and is led astray by no wall clock that is set", () => {
    const { now, pass, read } = start();
    for (const ms of [HOUR, 500, 20]) {
      read();
      now.uptime += ms; // Asleep: its own clock stands still.
      now.wall += ms;
      assert.equal(read(), now.uptime);
    }
    for (const ms of [-HOUR, HOUR, -20, 20]) {
      now.wall += ms;
      pass(30);
      assert.equal(read(), now.uptime);
    }
  });

  test("never goes back, though the uptime is told in hundredths", () => {
    const { now, pass, read } = start();
    let before = read();
    for (let i = 0; i < 3000; i++) {
      pass(7);
      const exact = now.uptime;
      now.uptime = Math.floor(exact / 10) * 10;
      const boot = read();
      assert.ok(boot >= before && Math.abs(boot - exact) <= 10, `${before}, ${boot}, ${exact}`);
      before = boot;
      now.uptime = exact;
    }
  });
});

describe("a clock that is set back or forward", () => {
  for (const kind of ["memory", "sqlite"] as const) {
    test(`neither robs a live worker nor keeps a dead caller's message for ever (${kind})`, async () => {
      let now = systemClock();
      const clock = () => now;
      const backend = kind === "memory"
        ? memoryBackend({ clock })
        : sqliteBackend(join(tempDir(), "q.db"), { create: true, clock });
      await backend.create("q");
      await backend.enqueue("q", [{ data: bytes("a") }, { data: bytes("b") }]);
      await backend.dequeue("q", { owner: workerOwner(), leaseMs: 1000 });
      await backend.dequeue("q", { owner: callerOwner(), leaseMs: 1000 });
      for (const wall of [-10 * HOUR, 10 * HOUR]) {
        now = { ...now, wall: now.wall + wall };
        assert.deepEqual(await backend.recover("q"), []);
      }
      now = { ...now, boot: now.boot + 1000, wall: now.wall - 24 * HOUR };
      assert.equal((await backend.recover("q")).length, 2);
      await backend.close();
    });
  }
});

describe("a lease begins when the lock is held, not before the wait for it", () => {
  const kinds: Record<string, (clock: LeaseClock) => Promise<[QueueBackend, () => boolean]>> = {
    sqlite: async (clock) => {
      const file = join(tempDir(), "q.db");
      const backend = sqliteBackend(file, { create: true, clock });
      const other = new DatabaseSync(file);
      other.exec("PRAGMA busy_timeout = 0");
      const isLocked = () => {
        try {
          other.exec("BEGIN IMMEDIATE; ROLLBACK");
          return false;
        } catch (error) {
          assert.match(String(error), /locked/);
          return true;
        }
      };
      return [backend, isLocked];
    },
    store: async (clock) => {
      const root = join(tempDir(), "store");
      const backend = await storeBackend(root, { create: true, clock });
      return [backend, () => existsSync(storePaths(root).lock)];
    },
  };
  for (const [kind, open] of Object.entries(kinds)) {
    test(kind, async () => {
      const seen: boolean[] = [];
      let isLocked = () => false;
      const [backend, look] = await open(() => {
        seen.push(isLocked());
        return systemClock();
      });
      isLocked = look;
      await backend.create("q");
      await backend.enqueue("q", ["a", "b"].map((each) => ({ data: bytes(each) })));
      assert.equal(look(), false);
      const owner = workerOwner();
      const [a] = await backend.dequeue("q", { owner, leaseMs: 60_000 });
      await backend.renew("q", [a!], 60_000);
      await backend.settleAndDequeue("q", [{ how: "ack", receipt: a! }], {
        owner,
        leaseMs: 60_000,
      });
      assert.deepEqual(await backend.recover("q"), []);
      assert.deepEqual(seen, [true, true, true, true]);
      await backend.close();
    });
  }
});
