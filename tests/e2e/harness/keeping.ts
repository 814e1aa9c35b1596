/** Submissions that are kept on their machine, as the origin was away. */
import { renameSync } from "node:fs";
import { type Agent, agentCommit, makeAgent, runJson } from "./agent.ts";
import { makeOrigin, type TestOrigin } from "./origin.ts";

/** Takes the origin away, and gives what brings it back. */
export function away(origin: Pick<TestOrigin, "dir">): () => void {
  renameSync(origin.dir, `${origin.dir}.away`);
  return () => renameSync(`${origin.dir}.away`, origin.dir);
}

/** An agent whose commit is kept on its machine; the origin is there again. */
export async function keeping(
  origin = makeOrigin(),
): Promise<{ agent: Agent; origin: TestOrigin; candidate: string }> {
  const agent = makeAgent(origin);
  const candidate = agentCommit(agent, { "a.txt": "a\n" });
  const back = away(origin);
  await runJson(agent, ["submit", "--no-wait", "--offline"]);
  back();
  return { agent, origin, candidate };
}
