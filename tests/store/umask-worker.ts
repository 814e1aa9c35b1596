/**
 * Does one thing in a directory under a umask that withholds the owner's rights; prints the code, message
 * and hint of its error as JSON. Everything is loaded before, since caches are written then.
 */
import process from "node:process";
import "@openclaw/fs-safe/config";
import "@openclaw/fs-safe/store";
import { AgentqError } from "../../src/errors.ts";
import { sqliteBackend } from "../../src/queuefs/backends/sqlite/backend.ts";
import { v1Backend } from "../../src/queuefs/backends/v1.ts";
import { emptyMetrics } from "../../src/queuefs/metrics.ts";
import { openMetricsFile } from "../../src/queuefs/metrics-files.ts";
import { initStore, openStore } from "../../src/store/mod.ts";

const [, , umask, what, place] = process.argv as [string, string, string, string, string];
const owner = { owner: "cli", leaseMs: 1000 };
const data = new TextEncoder().encode("1");
const DEEDS: Record<string, () => Promise<unknown>> = {
  "init": () => initStore(place),
  "enqueue": async () => await (await openStore(place)).enqueue("jobs", "b", 1),
  "claim": async () => await (await openStore(place)).claim("jobs"),
  "snapshot": async () => await (await openStore(place)).snapshot(),
  "sqlite create": async () => await sqliteBackend(place, { create: true }).create("jobs"),
  "metrics": async () => openMetricsFile(place, "worker").save(emptyMetrics()),
  "v1 open": async () => await v1Backend(place, { create: true }).create("jobs"),
  "v1 create": async () => await v1Backend(place).create("other"),
  "v1 enqueue": async () => await v1Backend(place).enqueue("jobs", [{ id: "b", data }]),
  "v1 dequeue": async () => await v1Backend(place).dequeue("jobs", owner),
  "v1 fail": async () => await v1Backend(place).fail("jobs", [{ id: "t", owner: "cli" }], "no"),
  "v1 ack": async () => await v1Backend(place).ack("jobs", [{ id: "t", owner: "cli" }]),
  "v1 status": async () => await v1Backend(place).status("jobs"),
};

process.umask(parseInt(umask, 8));
let answer: Record<string, unknown> = { code: "none" };
try {
  await DEEDS[what]!();
} catch (error) {
  answer = error instanceof AgentqError ? error.toJSON() : { code: "raw", message: String(error) };
}
process.stdout.write(JSON.stringify(answer));
