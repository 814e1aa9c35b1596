/**
 * Taking back what owners can't settle any more: survey, judge here (only this side can ask whether a
 * process still runs), take back what is still as surveyed.
 *
 * Leases are measured by the server's clock, and that may be set forward: then every lease looks run
 * out, those of live workers too. As everywhere, a worker's is watched before it is taken (`watch.ts`).
 */
import type { Recovered, RecoverOptions } from "../../contract.ts";
import { judgeLease } from "../../lease.ts";
import { watch, watchMs } from "../../watch.ts";
import type { Argument } from "./call.ts";
import type { Reply } from "./connection.ts";
import { groups, text } from "./replies.ts";
import type { Role } from "./role.ts";
import { SURVEY, TAKE_BACK } from "./scripts/messages.ts";
import type { Script } from "./scripts/prelude.ts";

type Run = (script: Script, args: readonly Argument[]) => Promise<Reply>;

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
  role: Role,
  queue: string,
  { staleMs, signal }: RecoverOptions,
): Promise<Recovered[]> {
  const candidates = await survey(run, role, staleMs, signal);
  const certain = candidates.filter(({ watchMs }) => watchMs === 0);
  const watched = candidates.filter(({ watchMs }) => watchMs > 0);
  const recovered = await takeBack(run, queue, certain, signal);
  if (watched.length === 0) return recovered;
  const longest = watched.reduce((most, { watchMs }) => Math.max(most, watchMs), 0);
  if (!await watch(longest, signal)) return recovered;
  return [...recovered, ...await takeBack(run, queue, watched, signal)];
}

/** In place of the record of a delivery that has no owner. */
const BARE = "bare";

/** So many at a time: a server does nothing else meanwhile. */
const CHUNK = 1000;

/**
 * Looks at all that is in processing, window by window from the end of their order downwards: what goes
 * meanwhile moves the rest down, into a window that is still to come, and what is taken meanwhile stands above.
 */
async function survey(
  run: Run,
  { asks, assertMaster }: Role,
  staleMs: number | undefined,
  signal: AbortSignal | undefined,
): Promise<Candidate[]> {
  // By delivery, since one may be met again in the next window.
  const candidates = new Map<string, Candidate>();
  for (let [first, last] = [-CHUNK, -1];;) {
    const [time, role, size, ...rows] = await run(SURVEY, [asks, first, last]) as Reply[];
    await assertMaster(role);
    for (const each of judge(Number(text(time)), rows, staleMs)) {
      candidates.set(`${each.id}|${each.owner}`, each);
    }
    last = first < 0 ? Number(size) - CHUNK - 1 : first - 1;
    if (last < 0 || signal?.aborted) return [...candidates.values()];
    first = Math.max(0, last - CHUNK + 1);
  }
}

/** Those of the surveyed that are to be taken back, or watched first. `wall`: the server's time in ms. */
function judge(wall: number, rows: Reply[], staleMs: number | undefined): Candidate[] {
  const now = { boot: 0, bootId: null, wall };
  const candidates: Candidate[] = [];
  for (const row of groups(rows, 5)) {
    const [id, owner, record, alive, score] = row.map(text) as [
      string,
      string,
      string,
      string,
      string,
    ];
    if (record === BARE) {
      // Taken by a program that says nothing of itself: no heartbeat tells when it is gone.
      const grantedWall = Number(score) * 1000;
      const lease = { owner: null, grantedBoot: null, grantedWall, lengthMs: null };
      const why = judgeLease(lease, now, staleMs);
      if (why !== "held") candidates.push({ id, owner, record, why, watchMs: 0 });
      continue;
    }
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

/**
 * Those that go furthest back come first: of those that are at the front already, placing a message back
 * moves all that belong before it.
 */
async function takeBack(
  run: Run,
  queue: string,
  candidates: readonly Candidate[],
  signal: AbortSignal | undefined,
): Promise<Recovered[]> {
  const sorted = candidates.map((candidate) => ({ candidate, order: orderOf(candidate) }))
    .sort((a, b) => a.order - b.order).map(({ candidate }) => candidate);
  const recovered: Recovered[][] = [];
  for (let end = sorted.length; end > 0; end -= CHUNK) {
    const chunk = sorted.slice(Math.max(0, end - CHUNK), end);
    const args = chunk.flatMap(({ id, owner, record }) => [id, owner, record]);
    const outcomes = await run(TAKE_BACK, args) as number[];
    recovered.unshift(chunk.flatMap(({ id, why }, i) =>
      outcomes[i] === 0 ? [] : [{
        queue,
        id,
        why,
        outcome: outcomes[i] === 2 ? "superseded" as const : "pending" as const,
      }]
    ));
    if (signal?.aborted) break;
  }
  return recovered.flat();
}

/** The number of its first delivery, the fourth part of its record; 0 where another program took it. */
function orderOf({ record }: Candidate): number {
  return Number(record.split("|")[3] ?? 0);
}
