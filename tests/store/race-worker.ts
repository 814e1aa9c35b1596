/** Does one kind of operation on a store over and over, and prints what came of it. */
import process from "node:process";
import { isAgentqError } from "../../src/errors.ts";
import { openStore, type Receipt } from "../../src/store/mod.ts";

const [root, kind, name, rounds] = process.argv.slice(2);
const store = await openStore(root!);
const claims = async (): Promise<Receipt[]> =>
  (await store.messages({ queue: "jobs", state: "claimed" })).map(({ receipt }) => receipt);

async function once(round: number): Promise<string> {
  if (kind === "enqueue") {
    const { generation } = await store.enqueue("jobs", `${name}-${round}`, { round });
    return generation;
  }
  if (kind === "claim") {
    return (await store.claim("jobs"))[0]?.receipt.generation ?? "";
  }
  if (kind === "gc") {
    await store.gc();
    return "";
  }
  const [receipt] = await claims();
  if (receipt === undefined) return "";
  switch (kind) {
    case "ack":
      await store.ack(receipt);
      break;
    case "requeue":
      await store.requeue(receipt);
      break;
    case "quarantine":
      await store.quarantine(receipt, { failedId: receipt.generation, reason: "race" });
      break;
    case "migrate": {
      const [claim] = await store.claim("jobs", { id: receipt.id });
      if (claim !== undefined) await store.migrate(claim, (payload) => payload);
      break;
    }
  }
  return receipt.generation;
}

for (let round = 0; round < Number(rounds); round++) {
  try {
    const generation = await once(round);
    if (generation !== "") console.log(`${kind} ${generation}`);
  } catch (error) {
    // The other process was faster with this one.
    if (!isAgentqError(error, "stale-generation")) throw error;
  }
}
