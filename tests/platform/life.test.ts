import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import fs from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { askLife, endedLives, type Life, LIFE_MARK, showLife } from "../../src/platform/life.ts";
import { createLocked, lockShared } from "../../src/platform/flock.ts";
import { contained, scriptRun, speak, type Spoken } from "../helpers/containers.ts";
import { tempDir } from "../helpers/git.ts";

const script = fileURLToPath(new URL("./life-child.ts", import.meta.url));
const asIs = (mode: number) => mode;
const shown = (directory: string): Life => {
  const life = showLife(directory, asIs);
  assert.ok(life);
  return life;
};
const signs = (directory: string) =>
  fs.readdirSync(directory).filter((name) => name.startsWith("agentq-life-"));

async function showing(
  directory: string,
  wrap = (...command: string[]): string[] => command,
): Promise<Spoken & { mark: string; pid: number }> {
  const spoken = speak(wrap(...scriptRun(script, "show", directory)));
  const line = await spoken.line();
  if (line === null) throw new Error((await spoken.ended).stderr);
  const [mark, pid] = line.split(" ");
  assert.match(mark!, LIFE_MARK);
  return { ...spoken, mark: mark!, pid: Number(pid) };
}

async function told(spoken: Spoken, word: string): Promise<string | null> {
  spoken.child.stdin!.write(`${word}\n`);
  return await spoken.line();
}

/** Asked by a process in another container. */
function askedElsewhere(directory: string, mark: string): string {
  const [program, ...args] = contained(...scriptRun(script, "ask", directory, mark));
  return execFileSync(program, args, { encoding: "utf8" }).trim();
}

test("a sign of life is held until it ends, whoever asks", () => {
  const directory = tempDir();
  const life = shown(directory);
  assert.match(life.mark, LIFE_MARK);
  assert.equal(askLife(directory, life.mark), "alive");
  assert.equal(askedElsewhere(directory, life.mark), "alive");
  assert.deepEqual(endedLives(directory), []);
  life.end();
  life.abandon();
  assert.deepEqual(signs(directory), []);
  assert.equal(askLife(directory, life.mark), "unknown");
});

test("one that is abandoned is a proof, for as long as it is there", () => {
  const directory = tempDir();
  const life = shown(directory);
  life.note(["refs/a.lock", "refs/b.lock"]);
  life.note(["refs/c.lock"]);
  life.abandon();
  life.end();
  assert.equal(askLife(directory, life.mark), "gone");
  assert.equal(askedElsewhere(directory, life.mark), "gone");
  const [ended, ...more] = endedLives(directory);
  assert.deepEqual(more, []);
  assert.equal(ended!.mark, life.mark);
  assert.deepEqual(ended!.notes, ["refs/a.lock", "refs/b.lock", "refs/c.lock"]);
  // While it is being tidied up it can be asked about, and be made nobody's own.
  assert.equal(askLife(directory, life.mark), "gone");
  const [again] = endedLives(directory);
  ended!.forget();
  ended!.leave();
  again!.forget();
  again!.leave();
  assert.deepEqual(signs(directory), []);
});

test("a process in another container: alive, alive when stopped, gone when killed", async () => {
  const directory = tempDir();
  const owner = await showing(directory, contained);
  assert.equal(owner.pid, 1, "the first of its namespace");
  assert.equal(askLife(directory, owner.mark), "alive");
  const { pid } = owner.child;
  const inner = Number(fs.readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8"));
  process.kill(inner, "SIGSTOP");
  for (let i = 0; i < 200; i++) assert.equal(askLife(directory, owner.mark), "alive");
  assert.equal(askedElsewhere(directory, owner.mark), "alive");
  process.kill(inner, "SIGCONT");
  process.kill(inner, "SIGKILL");
  await owner.ended;
  assert.equal(askLife(directory, owner.mark), "gone");
  assert.equal(askedElsewhere(directory, owner.mark), "gone");
});

test("what a dead owner started and left running doesn't make it look alive", async () => {
  const directory = tempDir();
  const owner = await showing(directory);
  const orphan = Number(await told(owner, "child"));
  try {
    assert.equal(askLife(directory, owner.mark), "alive");
    process.kill(owner.pid, "SIGKILL");
    await owner.ended;
    // A program that is being loaded holds what is open until it runs.
    while (askLife(directory, owner.mark) !== "gone") await new Promise((go) => setTimeout(go, 5));
    process.kill(orphan, 0);
  } finally {
    process.kill(orphan, "SIGKILL");
  }
});

test("nothing is proved by a sign that is missing, another file, or no file", () => {
  const directory = tempDir();
  const life = shown(directory);
  life.abandon();
  const [id, dev, ino] = life.mark.split(":") as [string, string, string];
  assert.equal(askLife(directory, life.mark), "gone");
  assert.equal(askLife(directory, `0123456789abcdef:${dev}:${ino}`), "unknown");
  assert.equal(askLife(directory, `${id}:${BigInt(dev) + 1n}:${ino}`), "unknown");
  assert.equal(askLife(directory, `${id}:${dev}:${BigInt(ino) + 1n}`), "unknown");
  assert.equal(askLife(tempDir(), life.mark), "unknown");
  // A copy of the directory has files of its own.
  const copy = join(tempDir(), "copy");
  execFileSync("cp", ["-a", directory, copy]);
  assert.equal(askLife(copy, life.mark), "unknown");
  const path = join(directory, `agentq-life-${id}`);
  fs.renameSync(path, join(directory, "moved"));
  fs.symlinkSync("moved", path);
  assert.equal(askLife(directory, life.mark), "unknown");
  fs.unlinkSync(path);
  execFileSync("mkfifo", [path]);
  assert.equal(askLife(directory, life.mark), "unknown");
  assert.deepEqual(endedLives(directory), []);
});

test("seen through an overlay, the same file is another, and proves nothing", async () => {
  const directory = tempDir();
  const owner = await showing(directory);
  const top = tempDir();
  const merged = tempDir();
  const ask = scriptRun(script, "ask", merged, owner.mark).map((word) => `'${word}'`).join(" ");
  const [program, ...args] = contained(
    "sh",
    "-ec",
    `mount -t tmpfs none ${top}; mkdir ${top}/u ${top}/w
     mount -t overlay none -o lowerdir=${directory},upperdir=${top}/u,workdir=${top}/w ${merged}
     test -f ${merged}/agentq-life-${owner.mark.split(":")[0]}
     ${ask}`,
  );
  const result = spawnSync(program, args, { encoding: "utf8" });
  assert.equal(result.status, 0, result.stderr);
  assert.equal(result.stdout.trim(), "unknown");
  assert.equal(await told(owner, "end"), "done");
  owner.child.stdin!.end();
  await owner.ended;
});

test("no sign is made where it would prove nothing, or can't be made", () => {
  assert.equal(showLife("/proc", asIs), null);
  assert.equal(showLife("/sys", asIs), null);
  assert.equal(showLife(join(tempDir(), "missing"), asIs), null);
});

test("on a file system that isn't known to be this kernel's alone no sign is made, and none believed", () => {
  const words = (...args: string[]) => scriptRun(script, ...args).map((w) => `'${w}'`).join(" ");
  const directory = tempDir();
  const id = "0123456789abcdef";
  const [program, ...args] = contained(
    "sh",
    "-ec",
    `${words("show", directory)} </dev/null
     mount -t ramfs none ${directory}
     ${words("show", directory)} </dev/null
     : >${directory}/agentq-life-${id}
     mark=${id}:$(stat -c %d:%i ${directory}/agentq-life-${id})
     ${words("ask", directory)} "$mark"`,
  );
  const result = spawnSync(program, args, { encoding: "utf8" });
  assert.equal(result.status, 0, result.stderr);
  const [before, after, asked] = result.stdout.trim().split("\n");
  assert.match(before!.split(" ")[0]!, LIFE_MARK);
  assert.equal(after!.split(" ")[0], "undefined");
  assert.equal(asked, "unknown");
});

test("who tidies up and who makes a sign don't meet: a file is never both's", () => {
  const path = join(tempDir(), "file");
  fs.writeFileSync(path, "");
  const first = lockShared(path);
  const second = lockShared(path);
  assert.ok(first !== null && first !== "held" && second !== null && second !== "held");
  first.close();
  second.close();
  assert.equal(createLocked(path), null, "it is there already");
  assert.ok(fs.existsSync(path), "and stays");
  const own = createLocked(`${path}-new`)!;
  assert.equal(lockShared(`${path}-new`), "held");
  own.close();
  assert.equal(lockShared(join(path, "nowhere")), null);
});

test("a sign has the permissions it is given", () => {
  const directory = tempDir();
  const before = process.umask(0o077);
  try {
    const life = showLife(directory, (mode) => mode | 0o664)!;
    const [name] = signs(directory);
    assert.equal(fs.statSync(join(directory, name!)).mode & 0o777, 0o664);
    life.end();
  } finally {
    process.umask(before);
  }
});

test("of many signs a few are looked at, in the end all; what is too long to be ours isn't read", () => {
  const directory = tempDir();
  for (let i = 0; i < 30; i++) shown(directory).abandon();
  const alive = [0, 1, 2].map(() => shown(directory));
  fs.appendFileSync(join(directory, signs(directory)[0]!), "x\n".repeat(100_000));
  let rounds = 0;
  while (signs(directory).length > 3) {
    const ended = endedLives(directory);
    assert.ok(ended.length <= 8);
    for (const one of ended) {
      assert.deepEqual(one.notes, []);
      one.forget();
      one.leave();
    }
    assert.ok(++rounds < 1000);
  }
  for (const life of alive) {
    assert.equal(askLife(directory, life.mark), "alive");
    life.end();
  }
});
