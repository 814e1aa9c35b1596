/**
 * The compare-and-swap over a wire, and what its report means.
 *
 *   report: unpack ok, every ref ok ──────────────────────────────▶ won
 *   report: ng ──▶ read the refs ── one differs from its old value ▶ lost
 *                      │              all hold our new values ─────▶ won (an answer to a repetition)
 *                      └── all as we named them, and still so after a moment ▶ refused,
 *                             unless the server's words are about a lock: `ref-locked`, to be tried again
 *   no report, the whole request was sent ───────────────────────▶ unknown
 *      with a status that is final (401, 403, 413 …) ─▶ read the refs ── as above, but moved: unknown
 *   no report, the pack's end never left this machine ────────────▶ an error: nothing can have happened
 *
 * A server whose ref was locked by another push at that moment says ng like one whose hook declined;
 * the other push is then about to move the ref or to give up. Hence the second and third look. A lock that
 * is held for longer (a slow hook) leaves the refs as they were: then only the server's words tell it from
 * a refusal (contention.ts). Words decide nothing else: they are text for people.
 */
import { Buffer } from "node:buffer";
import { AgentqError, isAgentqError } from "../../errors.ts";
import { abortReason, systemClock, throwIfAborted } from "../../platform/clock.ts";
import { parseCommitLinks } from "../commit.ts";
import { enumerate } from "../enumerate.ts";
import { writePack } from "../pack-write.ts";
import { ZERO_OID } from "../oid.ts";
import type { PktReader } from "../pkt-line.ts";
import type {
  ObjectReader,
  Oid,
  PushOptions,
  PushOutcome,
  RefSnapshot,
  RefUpdate,
} from "../types.ts";
import { contentionOf } from "./contention.ts";
import { pushCommands, type PushReport, readPushReport } from "./receive-pack.ts";

/** One git-receive-pack that has advertised what it can do. */
export interface PushSession {
  readonly capabilities: ReadonlyMap<string, string>;
  /** What its advertisement listed: commits the server holds whole. */
  readonly tips: readonly Oid[];
  send(
    body: Uint8Array | (() => Iterable<Uint8Array>),
    options: { signal?: AbortSignal; onSent: () => void },
  ): Promise<PktReader>;
  /** The report was read, and the answer goes on: nobody reads it any more. */
  leave(): void;
}

export interface PushWire {
  readonly name: string;
  readonly agent: string;
  refs(prefixes: readonly string[], signal?: AbortSignal): Promise<RefSnapshot>;
  /** Those of the clone's commits, and of `near`, that the server has. */
  common(near: readonly Oid[], signal?: AbortSignal): Promise<readonly Oid[]>;
  /** @throws `atomic-unsupported` and whatever keeps the server from being reached */
  prepare(signal?: AbortSignal): Promise<PushSession>;
}

/** Requests up to this size are sent with their length known. */
const WHOLE = 1024 * 1024;
/** Branches of the server that are looked for here, so as not to send what they hold. */
const MAX_TIPS = 1024;
/** Ancestors of what is pushed that the server is asked about when it lists nothing we know. */
const MAX_NEAR = 64;
/** Pauses before looking again whether a refused push was a lost race, in milliseconds. */
const SECOND_LOOKS = [100, 400];
/**
 * How long the server may be silent behind its report, in milliseconds. The connection ends with the
 * last process that a hook has left running, which may be never; what became of the push is known.
 */
const QUIET_MS = 2_000;

/**
 * See {@link PushOutcome}. A ref whose new value is the zero id is deleted.
 * @throws typed errors for everything that happened before the push was sent; `ref-locked` where another
 * push held a lock, and nothing was done
 */
export async function pushOver(
  wire: PushWire,
  updates: readonly RefUpdate[],
  objects: ObjectReader,
  options: PushOptions,
): Promise<PushOutcome> {
  const { signal } = options;
  throwIfAborted(signal);
  const session = await wire.prepare(signal);
  const { capabilities } = session;
  const olds = updates.flatMap(({ old }) => old ?? []);
  const told = [...(options.remoteHas ?? []), ...olds, ...session.tips.slice(0, MAX_TIPS)];
  const haves = [...new Set(told)].filter((oid) => objects.has(oid));
  const wants = updates.map((update) => update.new).filter((oid) => oid !== ZERO_OID);
  if (haves.length < new Set(told).size) {
    // The server has moved on, and without knowing what of ours it has we would send all of history.
    const near = recentAncestors(objects, wants, haves);
    if (near.length > 0) haves.push(...await wire.common(near, signal));
  }
  const list = [...enumerate(objects, wants, haves)];
  const commands = pushCommands(updates, capabilities, wire.agent);
  const thin = !capabilities.has("no-thin");

  function* body(): Generator<Buffer, void, undefined> {
    yield commands;
    // No pack follows where refs are deleted only.
    if (wants.length > 0) yield* writePack(objects, list, { thin });
  }

  let sent = false;
  let report: PushReport;
  try {
    const reader = await session.send(bounded(body), { signal, onSent: () => sent = true });
    let left = false;
    try {
      report = await readPushReport(reader, capabilities, wire.name);
      left = !await heardOut(report);
    } finally {
      if (left) session.leave();
      else await reader.close();
    }
  } catch (error) {
    if (!sent) throw signal?.aborted ? abortReason(signal) : error;
    return await afterSending(wire, error, updates, signal);
  }
  if (report.unpack === "ok" && report.refused.length === 0) {
    const ok = new Set(report.ok);
    if (updates.every(({ ref }) => ok.has(ref))) return { status: "won" };
    return { status: "unknown", message: `${wire.name} did not report on every ref` };
  }
  return await refusedOrLost(wire, updates, report, signal);
}

/** Waits for the end of the answer as long as something is said. False when it was given up. */
async function heardOut(report: PushReport): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  // A connection that breaks now takes nothing back.
  const ended = report.rest().then(() => true, () => true);
  try {
    for (;;) {
      const said = report.remoteOutput().length;
      const quiet = new Promise<boolean>((resolve) => {
        timer = setTimeout(() => resolve(false), QUIET_MS);
      });
      if (await Promise.race([ended, quiet])) return true;
      clearTimeout(timer);
      if (report.remoteOutput().length === said) return false;
    }
  } finally {
    clearTimeout(timer);
  }
}

/** Commits that `wants` reach, nearest first, as far as the server is not known to have them. */
function recentAncestors(
  objects: ObjectReader,
  wants: readonly Oid[],
  haves: readonly Oid[],
): Oid[] {
  const known = new Set(haves);
  const found = new Set<Oid>();
  for (let level = wants; level.length > 0 && found.size < MAX_NEAR;) {
    const parents: Oid[] = [];
    for (const oid of level) {
      if (known.has(oid) || !objects.has(oid)) continue;
      const object = objects.read(oid);
      if (object.type === "commit") parents.push(...parseCommitLinks(object.data, oid).parents);
    }
    level = [...new Set(parents)].filter((oid) => !found.has(oid) && objects.has(oid));
    for (const oid of level) if (!known.has(oid)) found.add(oid);
  }
  return [...found];
}

/** The whole request when it is small, else a function that makes it in chunks. */
function bounded(body: () => Iterable<Buffer>): Uint8Array | (() => Iterable<Uint8Array>) {
  const chunks: Buffer[] = [];
  let size = 0;
  for (const chunk of body()) {
    chunks.push(chunk);
    if ((size += chunk.length) > WHOLE) return body;
  }
  return Buffer.concat(chunks);
}

/**
 * The request left; what came back wasn't a report. A status that turns it down may stem from something
 * between here and the server that looked at the answer alone, so the refs say whether it is true.
 */
async function afterSending(
  wire: PushWire,
  error: unknown,
  updates: readonly RefUpdate[],
  signal: AbortSignal | undefined,
): Promise<PushOutcome> {
  const why = error instanceof AgentqError ? error.message : String(error);
  const unknown: PushOutcome = {
    status: "unknown",
    message: `${wire.name} gave no report on the push: ${why}`,
    cause: error,
  };
  const status = isAgentqError(error) ? error.details?.status : undefined;
  const final = ["auth-required", "push-too-large", "origin-not-found", "forbidden"] as const;
  const turnedDown = isAgentqError(error, ...final) ||
    (isAgentqError(error, "server-error") && typeof status === "number" &&
      (!error.retryable || status === 411));
  if (!turnedDown || signal?.aborted) return unknown;
  try {
    const outcome = await whatRefsSay(wire, updates, signal);
    // Another push may have gone on from where ours has led.
    if (outcome !== null) return outcome.status === "won" ? outcome : unknown;
  } catch {
    return unknown;
  }
  if (status === 403) {
    return {
      status: "refused",
      message: error.message,
      remoteOutput: String(error.details?.remoteOutput ?? ""),
      refs: updates.map(({ ref }) => ({ ref, reason: "HTTP 403" })),
      httpStatus: status,
    };
  }
  if (isAgentqError(error, ...final) || status === 411) throw error;
  return unknown;
}

/** Git says no more than this in its report; beside it, that a ref exists which it doesn't show. */
function explained({ ref, reason }: { ref: string; reason: string }, said: string) {
  const silent = reason === "atomic transaction failed" || reason === "failed to update ref";
  const hidden = silent && (said.trim() === "" || /reference already exists/.test(said));
  return { ref, reason: hidden ? `${reason} (is it hidden there by transfer.hideRefs?)` : reason };
}

/** Won or lost, as the refs show; null while they are as they were, after two more looks too. */
async function whatRefsSay(
  wire: PushWire,
  updates: readonly RefUpdate[],
  signal: AbortSignal | undefined,
): Promise<PushOutcome | null> {
  const names = updates.map(({ ref }) => ref);
  for (const pause of [0, ...SECOND_LOOKS]) {
    if (pause > 0) await systemClock.sleep(pause, signal);
    const { refs } = await wire.refs(names, signal);
    const now = (ref: string): Oid | null => refs.get(ref) ?? null;
    if (updates.every((update) => now(update.ref) === update.new)) return { status: "won" };
    const differ = updates.filter(({ ref, old }) => now(ref) !== old).map(({ ref }) => ref);
    if (differ.length > 0) {
      return { status: "lost", message: `${differ.join(", ")} moved meanwhile`, refs: differ };
    }
  }
  return null;
}

async function refusedOrLost(
  wire: PushWire,
  updates: readonly RefUpdate[],
  report: PushReport,
  signal: AbortSignal | undefined,
): Promise<PushOutcome> {
  try {
    const outcome = await whatRefsSay(wire, updates, signal);
    if (outcome !== null) return outcome;
  } catch (error) {
    // Refused it was; only whether by a lost race stays open.
    const why = error instanceof Error ? error.message : String(error);
    return {
      status: "unknown",
      message: `the push failed, and then reading the refs: ${why}`,
      cause: error,
    };
  }
  const remoteOutput = report.remoteOutput();
  const contention = report.unpack === "ok"
    ? contentionOf({ refused: report.refused, remoteOutput })
    : null;
  if (contention?.kind === "moved") {
    // Read from another machine than the one that takes pushes, perhaps.
    const refs = contention.ref === null ? updates.map(({ ref }) => ref) : [contention.ref];
    return { status: "lost", message: contention.words, refs };
  }
  if (contention) {
    const what = contention.ref ?? updates.map(({ ref }) => ref).join(", ");
    throw new AgentqError(
      "ref-locked",
      `${what} is locked by another push, says ${wire.name}: ${contention.words}`,
      {
        hint: "Try again. If it stays so, a lock file was left behind there: ask who runs it.",
        details: { ref: contention.ref, remoteOutput },
      },
    );
  }
  const refs = report.refused.length > 0
    ? report.refused.map((one) => explained(one, remoteOutput))
    : updates.map(({ ref }) => ({ ref, reason: `unpack ${report.unpack}` }));
  const first = refs[0]!;
  const message = report.unpack === "ok" ? `${first.ref}: ${first.reason}` : report.unpack;
  return { status: "refused", message, remoteOutput, refs };
}
