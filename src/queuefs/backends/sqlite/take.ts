/** Taking messages: each delivery gets a number that no other delivery of its row has. */
import type { LeaseClock } from "../../clock.ts";
import type { Delivery, DequeueOptions, Ending, Turn } from "../../contract.ts";
import { decodeEnvelope } from "../../payload.ts";
import type { Database } from "./database.ts";
import { bury } from "./dead-letters.ts";
import { nextPending, requireQueue } from "./look.ts";
import { end } from "./settle.ts";

type Options = DequeueOptions & { readonly count: number };

/** A message that can't be read: its id, and why. */
type Unreadable = readonly [id: string, problem: string];

/** One transaction, in which the lease begins: not before the wait for the lock. */
export function dequeue(
  db: Database,
  queue: string,
  options: Options,
  clock: LeaseClock,
): Delivery[] {
  const buried: Unreadable[] = [];
  const taken = db.write(() => {
    const deliveries = take(db, queue, options, clock, buried);
    if (deliveries.length === 0) requireQueue(db, queue);
    return deliveries;
  });
  for (const each of buried) options.onUnreadable?.(...each);
  return taken;
}

/** Settles, then takes, in one transaction. */
export function settleAndDequeue(
  db: Database,
  queue: string,
  endings: readonly Ending[],
  options: Options,
  clock: LeaseClock,
): Turn {
  const buried: Unreadable[] = [];
  const turn = db.write(() => {
    const settlements = endings.map((ending) => end(db, queue, ending));
    const deliveries = take(db, queue, options, clock, buried);
    const nothing = deliveries.length === 0 && settlements.every((each) => each === "stale");
    if (nothing) requireQueue(db, queue);
    return { settlements, deliveries };
  });
  for (const each of buried) options.onUnreadable?.(...each);
  return turn;
}

const TAKE = `UPDATE queue_messages
  SET status = 'processing', processing_started_at = ?2, agentq_owner = ?3, agentq_delivery = ?4,
      agentq_granted_boot = ?5, agentq_granted_wall = ?6, agentq_lease_ms = ?7
  WHERE id = ?1`;

/**
 * Takes inside a write transaction; what can't be read goes to the dead letters. Found by one statement
 * and taken by another: an UPDATE that finds its rows and returns them keeps a table for each of the two,
 * which costs more than everything else that a dequeue does.
 */
function take(
  db: Database,
  queue: string,
  { owner, leaseMs, count }: Options,
  clock: LeaseClock,
  buried: Unreadable[],
): Delivery[] {
  const deliveries: Delivery[] = [];
  let last = 0;
  while (deliveries.length < count) {
    const want = count - deliveries.length;
    const now = clock();
    const seconds = Math.floor(now.wall / 1000);
    const rows = nextPending(db, queue, last, want);
    for (const row of rows) {
      const decoded = decodeEnvelope(row.data);
      const delivery = newDelivery();
      db.sql(TAKE).run(row.id, seconds, owner, delivery, now.boot, now.wall, leaseMs);
      if ("problem" in decoded) {
        bury(db, row.id, { delivery, owner }, decoded.problem, now.wall);
        buried.push([row.messageId, decoded.problem]);
        continue;
      }
      deliveries.push({
        id: row.messageId,
        data: decoded.data,
        lease: `${row.id}.${delivery}.${owner}`,
        attempts: row.attempts,
      });
    }
    if (rows.length < want) break;
    last = rows.at(-1)!.id;
  }
  return deliveries;
}

/**
 * At random, 47 bits: rows are told apart by their numbers, and where the newest is removed its number is
 * given out anew, with the same message id perhaps. Counting would then come to the old lease again.
 */
function newDelivery(): number {
  return 1 + Math.floor(Math.random() * 0x7fff_ffff_ffff);
}
