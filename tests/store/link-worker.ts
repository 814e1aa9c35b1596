/**
 * Uses a queue where the system refuses hardlinks, and prints what came of each call as JSON.
 *
 *   link-worker.ts v1 DIR MODE    claims `p`, fails `c` (claimed before) and `p`
 *   link-worker.ts create DIR     makes a v1 queue in DIR, and one below it
 *   link-worker.ts v2 DIR [open]  makes a store and does everything with it
 */
import { existsSync, linkSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { openBackend } from "../../src/queuefs/open.ts";
import { initStore, openStore, unlockStore } from "../../src/store/mod.ts";
import { type NativeMode, openV1Queue } from "../../src/store/v1.ts";

const [kind, directory, mode] = process.argv.slice(2);
const results: Record<string, unknown> = {};

async function attempt(name: string, action: () => unknown): Promise<void> {
  try {
    await action();
    results[name] = "done";
  } catch (error) {
    const { code, details } = error as { code?: string; details?: { errno?: string } };
    results[name] = { code: code ?? String(error), errno: details?.errno };
  }
}

// Whether links are refused at all, as the system says itself.
await attempt("link", () => {
  const file = join(
    kind === "v1" || kind === "create" && existsSync(directory!) ? directory! : tmpdir(),
    `.probe-${process.pid}`,
  );
  writeFileSync(file, "");
  try {
    linkSync(file, `${file}.link`);
    rmSync(`${file}.link`);
  } catch (error) {
    throw { code: (error as { code: string }).code };
  } finally {
    rmSync(file);
  }
});

if (kind === "v1") {
  const nativeMode = mode as NativeMode;
  await attempt("open", async () => {
    const queue = await openV1Queue(directory!, { nativeMode });
    await attempt("claim", () => queue.claim({ id: "p" }));
    await attempt("failClaimed", () => queue.fail("c"));
    await attempt("failPending", () => queue.fail("p"));
  });
} else if (kind === "create") {
  await attempt("library", () => openV1Queue(join(directory!, "q")));
  await attempt("backend", async () => {
    await (await openBackend(`v1:${directory}`, { create: true })).create("q");
  });
} else {
  await attempt("all", async () => {
    await initStore(directory!, { allowOpenModes: mode === "open" });
    const store = await openStore(directory!);
    for (const id of ["a", "b", "c", "d"]) await store.enqueue("jobs", id, { id });
    const [a, b, c] = await store.claim("jobs", { count: 3 });
    await store.migrate(a!, (payload) => ({ migrated: payload }));
    await store.ack(a!.receipt);
    await store.requeue(b!.receipt);
    await store.quarantine(c!.receipt, { reason: "x" });
    await store.failed.retry("c");
    await store.gc();
    await unlockStore(directory!);
    const report = await store.check();
    if (report.slots !== 3 || report.findings.length > 0) throw new Error(JSON.stringify(report));
  });
}
console.log(JSON.stringify(results));
