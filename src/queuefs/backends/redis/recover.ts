/**
 * Taking back what owners can't settle any more: survey, judge here (only this side can ask whether a
 * process still runs), take back what is still as surveyed.
 *
 * Leases are measured by the server's clock, and that may be set forward: then every lease looks run
 * out, those of live workers too. As everywhere, a worker's is watched before it is taken (`watch.ts`).
 */
import { Buffer } from "node:buffer";
import type { Recovered, RecoverOptions } from "../../contract.ts";
import { judgeLease } from "../../lease.ts";
import { watch, watchMs } from "../../watch.ts";
import type { Argument } from "./call.ts";
import type { Reply } from "./connection.ts";
import { SURVEY, TAKE_BACK } from "./scripts/messages.ts";
import type { Script } from "./scripts/prelude.ts";

type Run = (script: Script, ...args: Argument[]) => Promise<Reply>;

interface Candidate {
  readonly id: string;
  readonly owner: string;
  readonly record: string;
  readonly why: Recovered["why"];
  /** How long it must stay as it is before it is taken; 0: it may be taken at once. */
  readonly watchMs: number;
}

/** Recovers one queue. Takes as long as a renewal may take where a worker's lease has run out. */
export async function recoverQueue(
  run: Run,
  queue: string,
  { staleMs, signal }: RecoverOptions,
): Promise<Recovered[]> {
  const candidates = await survey(run, staleMs);
  const certain = candidates.filter(({ watchMs }) => watchMs === 0);
  const watched = candidates.filter(({ watchMs }) => watchMs > 0);
  const recovered = await takeBack(run, queue, certain);
  if (watched.length === 0) return recovered;
  if (!await watch(Math.max(...watched.map(({ watchMs }) => watchMs)), signal)) return recovered;
  return [...recovered, ...await takeBack(run, queue, watched)];
}

async function survey(run: Run, staleMs: number | undefined): Promise<Candidate[]> {
  const reply = (await run(SURVEY) as Uint8Array[]).map((bytes) => Buffer.from(bytes).toString());
  const now = { boot: 0, bootId: null, wall: Number(reply[0]) };
  const candidates: Candidate[] = [];
  for (let i = 1; i + 5 <= reply.length; i += 5) {
    const [id, owner, record, alive, score] = reply.slice(i, i + 5) as [
      string,
      string,
      string,
      string,
      string,
    ];
    if (record === "") {
      // A program with heartbeats: its instance is gone when its key has run out.
      if (alive === "0") candidates.push({ id, owner, record, why: "owner-gone", watchMs: 0 });
      continue;
    }
    const [, till, length] = record.split("|").map(Number) as [number, number, number];
    const lease = {
      owner,
      grantedBoot: null,
      grantedWall: Number.isFinite(till) ? till - length : Number(score) * 1000,
      lengthMs: length,
    };
    const why = judgeLease(lease, now, staleMs);
    if (why === "held") continue;
    candidates.push({ id, owner, record, why, watchMs: watchMs(lease, why) });
  }
  return candidates;
}

async function takeBack(
  run: Run,
  queue: string,
  candidates: readonly Candidate[],
): Promise<Recovered[]> {
  if (candidates.length === 0) return [];
  const args = candidates.flatMap(({ id, owner, record }) => [id, owner, record]);
  const outcomes = await run(TAKE_BACK, ...args) as number[];
  return candidates.flatMap(({ id, why }, i) =>
    outcomes[i] === 0 ? [] : [{
      queue,
      id,
      why,
      outcome: outcomes[i] === 2 ? "superseded" as const : "pending" as const,
    }]
  );
}
