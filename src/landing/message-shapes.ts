/**
 * The shapes of messages that every client writes, told at sight.
 *
 * Building zod schemas takes milliseconds of a run that has few, so what plainly is a ticket, result or
 * lock entry is accepted here, and everything else is left to message-schemas.ts. Nothing is accepted
 * here that isn't there: the tests compare the two.
 */
import {
  type Check,
  exactly,
  isAnything,
  isCount,
  isNumber,
  isOid,
  isText,
  listOf,
  maybe,
  nullable,
  optional,
  shape,
} from "../platform/shapes.ts";
import type { ChainName } from "./messages.ts";
import { MAX_BLOCK_NAMES, MAX_SKIP_NAMES } from "./skip.ts";

const isOne = exactly(1);

const namesUpTo = (most: number): Check => (value) =>
  Array.isArray(value) && value.length <= most &&
  value.every((one) => Array.isArray(one) && one.length === 2 && isCount(one[0]) && isOid(one[1]));
const isSkip = optional(namesUpTo(MAX_SKIP_NAMES));
const isBlock = optional(namesUpTo(MAX_BLOCK_NAMES));

const isTicket = shape({
  ticket: isCount,
  candidate: isOid,
  submitter: isText,
  verify_cmd: maybe(isText),
  verify_timeout: maybe((value) => isNumber(value) && (value as number) >= 0),
  check: maybe(isText),
  checkers: isAnything,
  agentq: optional(shape({
    v: isOne,
    submission: isText,
    submittedAt: isNumber,
    title: maybe(isText),
    strategy: maybe(isText),
    tip: maybe(isOid),
    drops: optional(listOf(isText)),
    skip: isSkip,
    block: isBlock,
  })),
});

const isResult = shape({
  ticket: isCount,
  candidate: isOid,
  submitter: isText,
  lander: isText,
  tip: isOid,
  landed: maybe(isOid),
  reason: isText,
  files: optional(listOf(isText)),
  regions: optional(listOf(isText)),
  report: optional(isText),
  agentq: optional(shape({
    v: isOne,
    startedAt: isNumber,
    endedAt: isNumber,
    tree: nullable(isOid),
    mergedFrom: nullable(isOid),
    verify: nullable(shape({ cmd: isText, exit: nullable(isNumber), ms: isNumber })),
    drops: optional(listOf(isText)),
    lastLanded: maybe(isOid),
    skip: isSkip,
    block: isBlock,
  })),
});

const isLock = shape({
  holder: maybe(isText),
  by: isText,
  at: isNumber,
  agentq: optional(shape({
    v: isOne,
    paused: nullable(shape({ by: isText, reason: nullable(isText) })),
    cancelled: listOf(isCount),
    acceptedTip: nullable(isOid),
    confirmed: maybe(isCount),
    published: maybe(shape({ ticket: isCount, tip: isOid, landed: isOid })),
    tip: maybe(isOid),
    failures: maybe(shape({ ticket: isCount, count: isCount })),
    refusals: maybe(shape({ ticket: isCount, count: isCount, why: isText })),
    deaths: maybe(shape({ ticket: isCount, count: isCount })),
  })),
});

const KINDS: Record<ChainName, readonly [kind: string, check: Check]> = {
  queue: ["ticket", isTicket],
  done: ["result", isResult],
  lock: ["lock", isLock],
};

/** True only for valid messages of `chain`; false says nothing. */
export function isKnownShape(chain: ChainName, value: unknown): boolean {
  const kind = (value as { kind?: unknown } | null | undefined)?.kind;
  if (kind === "genesis" && chain !== "lock") return isText((value as { chain?: unknown }).chain);
  const [expected, check] = KINDS[chain];
  return kind === expected && check(value);
}
