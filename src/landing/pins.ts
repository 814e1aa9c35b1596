/**
 * `agentq.json` at the tip of the branch: checks that every ticket must pass, whatever it brings along,
 * and rules for the commands of tickets.
 *
 *     {"verify": ["npm ci", "npm test"], "verifyTimeout": 1800,
 *      "ticketCommands": "refuse", "sandbox": ["bwrap", "--ro-bind", "/", "/", …]}
 */
import { Buffer } from "node:buffer";
import * as z from "zod/mini";
import { AgentqError } from "../errors.ts";
import { parseCommit } from "../git/commit.ts";
import { isFileMode, parseTree } from "../git/tree.ts";
import type { ObjectReader, Oid } from "../git/types.ts";
import { closest } from "../platform/closest.ts";
import { shapeProblem } from "./shape-problem.ts";

export const PINS_FILE = "agentq.json";
const MAX_PINS_BYTES = 256 * 1024;

const command = z.string().check(
  z.minLength(1),
  z.refine((text) => !text.includes("\0"), "holds a NUL"),
);

const pinsSchema = z.looseObject({
  verify: z.optional(z.union([command, z.array(command)], "is no command and no list of commands")),
  verifyTimeout: z.optional(
    z.number("is not a number of seconds").check(z.positive("is not more than 0 seconds")),
  ),
  ticketCommands: z.optional(z.enum(["run", "refuse"], 'is neither "run" nor "refuse"')),
  sandbox: z.optional(
    z.array(command, "is not a list of words").check(z.minLength(1, "has no word in it")),
  ),
});

export interface Pins {
  readonly verify: readonly string[];
  /** Seconds for each pinned command. */
  readonly verifyTimeout: number;
  readonly ticketCommands: "run" | "refuse";
  /** Words put in front of every check; empty for none. */
  readonly sandbox: readonly string[];
  /** Settings that this version doesn't know: nothing is done for them. */
  readonly unknown: readonly string[];
}

const NO_PINS: Pins = {
  verify: [],
  verifyTimeout: 1800,
  ticketCommands: "run",
  sandbox: [],
  unknown: [],
};
const NAMES = ["verify", "verifyTimeout", "ticketCommands", "sandbox"];

/** The id of `agentq.json` in the root of a commit's tree, whatever it is; null when there is none. */
export function pinsEntry(objects: ObjectReader, tree: Oid): { oid: Oid; file: boolean } | null {
  const entry = parseTree(objects.read(tree).data, tree).find(({ path }) => path === PINS_FILE);
  return entry ? { oid: entry.oid, file: isFileMode(entry.mode) } : null;
}

/**
 * The pins of a tree.
 * @throws `pins-invalid`: what can't be read can't be obeyed, so nothing lands until it is mended
 */
export function readPins(objects: ObjectReader, tree: Oid): Pins {
  const entry = pinsEntry(objects, tree);
  if (entry === null) return NO_PINS;
  if (!entry.file) throw invalid("is not a file");
  const { size } = objects.stat(entry.oid);
  if (size > MAX_PINS_BYTES) {
    throw invalid(`has ${size} bytes, and no more than ${MAX_PINS_BYTES} are read`);
  }
  let value: unknown;
  const text = Buffer.from(objects.read(entry.oid).data).toString("utf8");
  if (text.startsWith("\ufeff")) {
    throw invalid("begins with a byte order mark: save it without one");
  }
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw invalid(`is not JSON: ${(cause as Error).message}`);
  }
  const parsed = pinsSchema.safeParse(value);
  if (!parsed.success) {
    throw invalid(`is not valid: ${shapeProblem(value, parsed.error.issues[0])}`);
  }
  const { verify, verifyTimeout, ticketCommands, sandbox } = parsed.data;
  // Of what was read: parsing drops a `__proto__`.
  const unknown = Object.keys(value as object).filter((name) => !NAMES.includes(name));
  // A check that isn't made for a slip of the pen: better that nothing lands.
  for (const name of unknown) {
    const meant = closest(name, NAMES);
    if (meant !== undefined) {
      throw invalid(`has no setting ${quotedName(name)}; did you mean "${meant}"?`);
    }
  }
  return {
    verify: verify === undefined ? [] : typeof verify === "string" ? [verify] : verify,
    verifyTimeout: verifyTimeout ?? NO_PINS.verifyTimeout,
    ticketCommands: ticketCommands ?? NO_PINS.ticketCommands,
    sandbox: sandbox ?? NO_PINS.sandbox,
    unknown: unknown.map(quotedName),
  };
}

/** The pins that hold for a branch at `tip`; none for a branch that doesn't exist yet. */
export function pinsAt(objects: ObjectReader, tip: Oid | null): Pins {
  if (tip === null) return NO_PINS;
  return readPins(objects, parseCommit(objects.read(tip).data, tip).tree);
}

const quotedName = (name: string) => JSON.stringify(name.slice(0, 80));

function invalid(what: string): AgentqError {
  return new AgentqError("pins-invalid", `${PINS_FILE} at the tip of the branch ${what}`);
}
