import assert from "node:assert/strict";
import fs from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { nodeFiles } from "../../src/platform/files.ts";
import { tempDir } from "../helpers/git.ts";

const work = tempDir();

/** ext4, tmpfs and overlayfs surely do; elsewhere it may be left. */
const holds = process.platform === "linux" &&
  [0xef53, 0x01021994, 0x794c7630].includes(fs.statfsSync(work).type);

function made(name: string): { path: string; dev: bigint } {
  const path = join(work, name);
  fs.writeFileSync(path, "content");
  return { path, dev: nodeFiles.lstat(path)!.dev };
}

async function closed(fds: readonly number[]): Promise<void> {
  const isOpen = (fd: number) => {
    try {
      fs.fstatSync(fd);
      return true;
    } catch {
      return false;
    }
  };
  while (fds.some(isOpen)) await new Promise((resolve) => setTimeout(resolve, 1));
}

describe("what is held", () => {
  it("stays whole when its name goes, and is closed when it is let go of", async () => {
    const { path, dev } = made("one");
    const held = nodeFiles.hold(path, dev);
    fs.unlinkSync(path);
    if (holds) assert.notEqual(held, null);
    if (held === null) return;
    assert.equal(new TextDecoder().decode(nodeFiles.readAll(held, 7, 100)), "content");
    assert.equal(nodeFiles.fstat(held).links, 0);
    await nodeFiles.letGo([held]);
    await closed([held]);
  });

  it("may be a directory", async () => {
    const path = join(work, "directory");
    fs.mkdirSync(path);
    const held = nodeFiles.hold(path, nodeFiles.lstat(path)!.dev);
    fs.rmdirSync(path);
    if (holds) assert.notEqual(held, null);
    if (held !== null) await nodeFiles.letGo([held]);
  });

  it("is not what isn't there", () => {
    assert.equal(nodeFiles.hold(join(work, "missing"), made("two").dev), null);
  });

  it("is not on a file system that would keep it by another name", () => {
    // procfs stands for all that isn't known to do without.
    if (!fs.existsSync("/proc/self/status")) return;
    assert.equal(nodeFiles.hold("/proc/self/status", nodeFiles.lstat("/proc/self")!.dev), null);
  });

  it("is closed however much it is", async () => {
    const { path, dev } = made("many");
    const held = Array.from({ length: 400 }, () => nodeFiles.hold(path, dev))
      .filter((fd) => fd !== null);
    if (holds) assert.equal(held.length, 400);
    await nodeFiles.letGo(held);
    await closed(held);
  });
});
