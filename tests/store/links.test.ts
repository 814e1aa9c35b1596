import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { openV1Queue } from "../../src/store/v1.ts";
import { tempDir } from "../helpers/git.ts";
import { runWithoutLinks } from "../helpers/seccomp.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const BUN = join(ROOT, "node_modules/.bin/bun");
const WORKER = join(ROOT, "tests/store/link-worker.ts");
const ERRNOS = ["EACCES", "EPERM", "EXDEV", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"] as const;
const MODES = ["off", "auto", "require"] as const;
/** fs-safe's helper comes as an optional package that npm leaves out where it doesn't fit. */
const NATIVE = readdirSync(join(ROOT, "node_modules/@openclaw")).some((name) =>
  name.startsWith("fs-safe-")
);

/** Linux has one number for both. */
const sameErrno = (errno: string) => errno === "EOPNOTSUPP" ? "ENOTSUP" : errno;

/** Names, identities and contents of everything in a directory. */
function fingerprint(directory: string): string[] {
  return readdirSync(directory, { recursive: true, encoding: "utf8" }).sort().map((name) => {
    const stat = lstatSync(join(directory, name), { bigint: true });
    const content = stat.isFile() ? readFileSync(join(directory, name), "utf8") : "";
    return `${name} ${stat.ino} ${stat.nlink} ${stat.mode} ${content}`;
  });
}

interface Answer {
  readonly code: string;
  readonly errno?: string;
}

describe("where link and linkat are refused by the kernel", () => {
  for (const errno of ERRNOS) {
    for (const mode of MODES) {
      test(`(${errno}, native ${mode}) v1 says so and leaves every file as it was`, async () => {
        const directory = join(tempDir(), "q");
        const queue = await openV1Queue(directory, { nativeMode: "off" });
        await queue.enqueue("c", { claimed: true });
        await queue.claim({ id: "c" });
        await queue.enqueue("p", { pending: true });
        const before = fingerprint(directory);

        const output = await runWithoutLinks(errno, [BUN, WORKER, "v1", directory, mode]);
        const results = JSON.parse(output) as Record<string, Answer>;
        assert.equal(sameErrno(results.link!.code), sameErrno(errno), "links are refused");
        for (const call of ["claim", "failClaimed", "failPending"]) {
          if (mode === "require" && !NATIVE) continue;
          assert.equal(results[call]?.code, "helper-unavailable", `${call}: ${output}`);
          assert.equal(sameErrno(results[call]!.errno!), sameErrno(errno));
        }
        if (mode === "require" && !NATIVE) {
          assert.equal((results.claim ?? results.open)?.code, "helper-unavailable");
        }
        const after = fingerprint(directory);
        assert.deepEqual(after, before);
        // Nothing was lost: with links it all goes on.
        assert.deepEqual((await queue.claim({ id: "p" }))[0]!.payload, { pending: true });
        await queue.ack("c");
      });
    }

    for (const there of [false, true]) {
      const place = there ? "in a directory that is there" : "with its directories";
      test(`(${errno}) no v1 queue is made ${place}`, async () => {
        const root = tempDir();
        const directory = join(root, "a", "b");
        if (there) mkdirSync(join(directory, "q"), { recursive: true });
        const before = fingerprint(root);
        const output = await runWithoutLinks(errno, [BUN, WORKER, "create", directory]);
        const results = JSON.parse(output) as Record<string, Answer>;
        for (const call of ["library", "backend"]) {
          assert.equal(results[call]?.code, "helper-unavailable", `${call}: ${output}`);
          assert.equal(sameErrno(results[call]!.errno!), sameErrno(errno));
        }
        assert.deepEqual(fingerprint(root), before);
      });
    }

    test(`(${errno}) v2 does everything`, async () => {
      const root = join(tempDir(), "store");
      const output = await runWithoutLinks(errno, [BUN, WORKER, "v2", root]);
      const results = JSON.parse(output) as { link: Answer; all: unknown };
      assert.equal(sameErrno(results.link.code), sameErrno(errno), "links are refused");
      assert.equal(results.all, "done");
    });
  }
});

describe("strace", () => {
  async function linkCalls(argv: readonly string[]): Promise<string[]> {
    const log = join(tempDir(), "strace.log");
    const child = spawn("strace", [
      ...["-f", "--seccomp-bpf", "-e", "trace=link,linkat", "-o", log],
      ...argv,
    ], { cwd: ROOT, stdio: ["ignore", "ignore", "pipe"] });
    let errors = "";
    child.stderr.on("data", (chunk) => errors += chunk);
    await once(child, "close");
    assert.equal(child.exitCode, 0, errors);
    return readFileSync(log, "utf8").split("\n").filter((line) => /\blink(at)?\(/.test(line));
  }

  test("sees the link that v1 makes, so that it could see v2's", async () => {
    const directory = join(tempDir(), "q");
    const queue = await openV1Queue(directory, { nativeMode: "off" });
    await queue.enqueue("p", 1);
    const calls = await linkCalls([BUN, WORKER, "v1", directory, "off"]);
    assert.ok(calls.some((line) => line.includes("p.processing")), calls.join("\n"));
  });

  test("sees none in the v2 suite", { timeout: 300_000 }, async () => {
    const suite = ["store", "init", "lock"].map((name) => `./tests/store/${name}.test.ts`);
    const calls = await linkCalls([BUN, "test", "--timeout", "120000", ...suite]);
    assert.deepEqual(calls, []);
  });
});

describe("exFAT, which has no hardlinks and keeps no permissions", () => {
  /** Why this machine can't mount one, or null. */
  function obstacle(): string | null {
    if (process.getuid?.() !== 0) return "only root can mount";
    if (!existsSync("/dev/fuse")) return "there is no /dev/fuse";
    if (spawnSync("losetup", ["-f"]).status !== 0) return "there is no loop device";
    return null;
  }

  test("v1 is refused by type, and v2 works with open modes", async () => {
    const why = obstacle();
    if (why !== null) {
      console.log(`not mounted here: ${why}`);
      return;
    }
    const directory = tempDir();
    const image = join(directory, "exfat.img");
    const mount = join(directory, "mount");
    mkdirSync(mount);
    writeFileSync(image, new Uint8Array(16 * 1024 * 1024));
    const command = (name: string, ...args: string[]) => {
      const run = spawnSync(name, args, { encoding: "utf8" });
      assert.equal(run.status, 0, `${name}: ${run.stderr}${run.error ?? ""}`);
      return run.stdout.trim();
    };
    command("mkfs.exfat", image);
    const device = command("losetup", "-f", "--show", image);
    try {
      command("mount.exfat-fuse", device, mount);
      const worker = (...args: string[]) => {
        const run = spawnSync(BUN, [WORKER, ...args], { encoding: "utf8" });
        return JSON.parse(run.stdout);
      };
      const v1 = join(mount, "v1");
      const answers = worker("create", v1);
      for (const call of ["library", "backend"]) {
        assert.equal(answers[call].code, "helper-unavailable", JSON.stringify(answers));
      }
      assert.deepEqual(readdirSync(mount), [], "nothing was made");
      // As a version before has made one.
      mkdirSync(join(v1, "failed"), { recursive: true });
      const queue = await openV1Queue(v1, { nativeMode: "off" });
      // fs-safe doesn't even write where it can't verify permissions.
      await assert.rejects(queue.enqueue("p", 1), { code: "identity-changed" });
      writeFileSync(join(v1, "p.json"), "1");
      const names = readdirSync(v1, { recursive: true }).sort();
      const results = worker("v1", v1, "off");
      assert.ok(results.link.code !== undefined, "no hardlinks here");
      for (const call of ["claim", "failPending"]) {
        assert.deepEqual(results[call], { code: "helper-unavailable", errno: results.link.code });
      }
      assert.deepEqual(readdirSync(v1, { recursive: true }).sort(), names);

      assert.equal(worker("v2", join(mount, "strict")).all.code, "mode-unsupported");
      assert.equal(worker("v2", join(mount, "open"), "open").all, "done");
    } finally {
      spawnSync("umount", [mount]);
      command("losetup", "-d", device);
    }
  });
});
