/**
 * Has to do with a store's lock; run as a process of its own.
 *
 *   lock-holder.ts ROOT          takes the lock, says so, and sits on it until it is killed
 *   lock-holder.ts ROOT SITE     goes about adding a message; says so and stands still just before that call
 *                              (`flock N`: before it locks its Nth file)
 *   lock-holder.ts ROOT enqueue  adds a message, recovering from a stale lock; says `done` or the error's code
 */
import { writeSync } from "node:fs";
import process from "node:process";
import { nodeFiles } from "../../src/platform/files.ts";
import { tryExclusive } from "../../src/store/exclusive.ts";
import { storePaths } from "../../src/store/layout.ts";
import { openStore } from "../../src/store/mod.ts";
import { storePlatform } from "../../src/store/platform.ts";

const [root, what] = process.argv.slice(2) as [string, string | undefined];
if (what === undefined) {
  tryExclusive(storePlatform({}), storePaths(root).lock);
  process.stdout.write("held\n");
  setInterval(() => {}, 1000);
} else if (what === "enqueue") {
  try {
    const store = await openStore(root, { recoverStale: true, lockTimeoutMs: 300 });
    await store.enqueue("jobs", `m${Date.now()}`, 1);
    process.stdout.write("done\n");
  } catch (error) {
    process.stdout.write(`${(error as { code?: string }).code}\n`);
  }
} else {
  let flocks = 0;
  const files = new Proxy(nodeFiles, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      return (...args: unknown[]) => {
        if (args[0] === what || (name === "flock" && `flock ${++flocks}` === what)) {
          writeSync(1, "held\n");
          Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
        }
        return Reflect.apply(value, target, args);
      };
    },
  });
  const store = await openStore(root, { platform: { files } });
  await store.enqueue("jobs", "a", 1);
}
