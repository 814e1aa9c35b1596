/**
 * One of several processes that use one store until they are killed. Appends to its journal what it
 * is about to do where only that tells what may have happened, and what has happened after each call.
 */
import { appendFileSync } from "node:fs";
import process from "node:process";
import { isProcessAlive, type ProcessIdentity, processIdentity } from "../../src/platform/host.ts";
import { type Claim, type Json, openStore } from "../../src/store/mod.ts";
import { seededRandom } from "./simulated-files.ts";

const [root, journal, seed] = process.argv.slice(2);
const random = seededRandom(Number(seed));
const note = (event: string, generation: string, id: string) =>
  appendFileSync(journal!, `${event} ${generation} ${id}\n`);

const store = await openStore(root!, { recoverStale: true });
const me = processIdentity() as unknown as Json;
let serial = 0;
let held: Claim[] = [];

function check(claim: Claim): void {
  const payload = claim.json() as { id: string };
  if (payload.id !== claim.receipt.id) throw new Error(`${claim.receipt.id} has another's payload`);
}

for (let done = 0;; done++) {
  if (done === 1) process.stdout.write("at work\n");
  const dice = random();
  const claim = held[Math.floor(random() * held.length)];
  const payload = () => {
    const id = `${process.pid}-${seed}-${serial++}`;
    return { id, payload: { id, filler: "x".repeat(random() * 200) } };
  };
  if (dice < 0.3) {
    const one = payload();
    const receipt = await store.enqueue("jobs", one.id, one.payload);
    note("enqueued", receipt.generation, one.id);
  } else if (dice < 0.34) {
    const entries = Array.from({ length: 2 + Math.floor(random() * 4) }, payload);
    for (const { generation, id } of await store.enqueueMany("jobs", entries)) {
      note("enqueued", generation, id);
    }
  } else if (dice < 0.38 && held.length > 1) {
    const receipts = held.map(({ receipt }) => receipt);
    held = [];
    for (const { generation, id } of receipts) note("acking", generation, id);
    await store.ack(...receipts);
    for (const { generation, id } of receipts) note("acked", generation, id);
  } else if (dice < 0.55 || claim === undefined) {
    const claims = await store.claim("jobs", { count: 1 + Math.floor(random() * 3), owner: me });
    claims.forEach(check);
    for (const { receipt } of claims) note("claimed", receipt.generation, receipt.id);
    held.push(...claims);
  } else {
    const { generation, id } = claim.receipt;
    held = held.filter((other) => other !== claim);
    if (dice < 0.75) {
      note("acking", generation, id);
      await store.ack(claim.receipt);
      note("acked", generation, id);
    } else if (dice < 0.82) {
      await store.requeue(claim.receipt);
    } else if (dice < 0.9) {
      const migrated = await store.migrate(claim, (payload) => ({
        ...(payload as { id: string }),
        migrated: true,
      }));
      check(migrated);
      held.push(migrated);
    } else if (dice < 0.95) {
      note("failing", generation, id);
      await store.quarantine(claim.receipt, { failedId: generation, reason: "unlucky" });
      note("failed", generation, id);
    } else if (dice < 0.98) {
      held.push(claim);
      const gone = ({ reference }: { reference: { owner?: Json } }) =>
        isProcessAlive(reference.owner as unknown as ProcessIdentity) === "gone";
      await store.release(gone);
    } else {
      held.push(claim);
      await store.gc();
    }
  }
}
