import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import process from "node:process";
import { describe, test } from "node:test";
import {
  type HostProbe,
  hostProbe,
  isProcessAlive,
  type ProcessIdentity,
  processIdentity,
} from "../../src/platform/host.ts";

const me = processIdentity();

/** The real probe with some answers replaced. */
function probe(changes: Partial<HostProbe>): HostProbe {
  return { ...hostProbe(), ...changes };
}

describe("processIdentity()", () => {
  test("names this process by pid, start time, pid namespace and boot", () => {
    assert.equal(me.pid, process.pid);
    assert.match(me.startTime ?? "", /^\d+$/);
    assert.match(me.pidNamespace ?? "", /^pid:\[\d+\]$/);
    assert.equal(me.bootId, readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim());
    assert.deepEqual(JSON.parse(JSON.stringify(me)), me);
  });
});

describe("hostProbe()", () => {
  // Fails under user-mode emulation (qemu) when a process's own /proc/PID/stat is believed.
  test("this process's start time is what another process sees", () => {
    const seen = execFileSync("cat", [`/proc/${process.pid}/stat`], { encoding: "utf8" });
    const ticks = seen.slice(seen.lastIndexOf(")") + 2).split(" ")[19];
    assert.equal(hostProbe().startTime(process.pid)?.ticks, ticks);
  });
});

describe("isProcessAlive()", () => {
  test("says alive for this process", () => {
    assert.equal(isProcessAlive(me), "alive");
  });

  test("says gone for a process that has ended and been reaped", async () => {
    const child = spawn("sleep", ["60"]);
    const identity: ProcessIdentity = {
      ...me,
      pid: child.pid!,
      startTime: hostProbe().startTime(child.pid!)!.ticks,
    };
    assert.equal(isProcessAlive(identity), "alive");
    child.kill("SIGKILL");
    await once(child, "exit");
    assert.equal(isProcessAlive(identity), "gone");
  });

  test("says gone for a zombie that nobody has reaped", async () => {
    // The sleep that replaces the shell never reaps the shell's child.
    const shell = spawn("sh", ["-c", "sleep 60 & echo $!; exec sleep 61"]);
    try {
      const [line] = await once(shell.stdout, "data");
      const pid = Number(String(line).trim());
      const until = async (condition: () => boolean) => {
        while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
      };
      await until(() => readFileSync(`/proc/${shell.pid}/cmdline`, "utf8").includes("61"));
      await until(() => readFileSync(`/proc/${shell.pid}/comm`, "utf8").trim() === "sleep");
      process.kill(pid, "SIGKILL");
      await until(() => hostProbe().startTime(pid)?.zombie === true);
      const start = hostProbe().startTime(pid);
      assert.equal(start?.zombie, true);
      assert.equal(isProcessAlive({ ...me, pid, startTime: start!.ticks }), "gone");
    } finally {
      shell.kill("SIGKILL");
    }
  });

  test("says gone when the pid was reused by a process with another start time", () => {
    assert.equal(isProcessAlive({ ...me, startTime: "1" }), "gone");
  });

  test("says unknown after a reboot or on another machine, whatever the host name", () => {
    const elsewhere = { ...me, bootId: "00000000-0000-0000-0000-000000000000" };
    assert.equal(isProcessAlive(elsewhere), "unknown");
    assert.equal(isProcessAlive({ ...elsewhere, host: "other" }), "unknown");
  });

  test("says unknown for another pid namespace, also when the pid doesn't exist here", () => {
    const container = { ...me, pidNamespace: "pid:[1]" };
    assert.equal(isProcessAlive(container), "unknown");
    assert.equal(isProcessAlive({ ...container, pid: 4194304 }), "unknown");
  });

  test("says unknown when a fact is missing on either side", () => {
    assert.equal(isProcessAlive({ ...me, bootId: null }), "unknown");
    assert.equal(isProcessAlive({ ...me, pidNamespace: null }), "unknown");
    assert.equal(isProcessAlive({ ...me, startTime: null }), "unknown");
    assert.equal(isProcessAlive(me, probe({ bootId: () => null })), "unknown");
    assert.equal(isProcessAlive({ ...me, bootId: null }, probe({ bootId: () => null })), "unknown");
    assert.equal(isProcessAlive(me, probe({ pidNamespace: () => null })), "unknown");
  });

  test("says unknown when /proc hides a process that the kernel says exists", () => {
    assert.equal(isProcessAlive(me, probe({ startTime: () => null })), "unknown");
  });

  test("says gone when the process ends between the two questions", () => {
    let asked = 0;
    const ending = probe({ exists: () => asked++ === 0, startTime: () => null });
    assert.equal(isProcessAlive(me, ending), "gone");
  });

  test("refuses to draw conclusions from pids that name no single process", () => {
    for (const pid of [0, -1, 1.5, NaN]) {
      assert.equal(isProcessAlive({ ...me, pid }), "unknown");
    }
  });

  test("doesn't look at the wall clock", () => {
    const now = Date.now;
    try {
      Date.now = () => now() + 3_600_000 * 24 * 400;
      assert.equal(isProcessAlive(me), "alive");
    } finally {
      Date.now = now;
    }
  });
});
