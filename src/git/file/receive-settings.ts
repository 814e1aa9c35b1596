/**
 * Settings that git's receive-pack, and what it has unpack the objects, read before they take anything: a value that
 * is none ends them, whatever is pushed. Found by trying each with git 2.39. Left out are those that say how
 * something is shown, and those of which newer versions of git take more values.
 */
import { AgentqError } from "../../errors.ts";
import type { GitConfig } from "../config.ts";
import { parseBoolean } from "../config-file.ts";

interface Kind {
  /** Whether git takes it; null is a key without `=`. */
  readonly takes: (value: string | null) => boolean;
  /** In words, behind "which is not". */
  readonly what: string;
}

const between = (least: bigint, most: bigint, what: string): Kind => ({
  takes: (value) => {
    const number = integerOf(value);
    return number !== null && number >= least && number <= most;
  },
  what,
});
const within = (most: bigint, what: string) => between(-most, most, what);

const BOOLEAN: Kind = { takes: (value) => parseBoolean(value) !== undefined, what: "a boolean" };
const INT = within(2n ** 31n - 1n, "a number (of 32 bits)");
const INT64 = within(2n ** 63n - 1n, "a number");
const SIZE: Kind = {
  takes: (value) => !value?.includes("-") && between(0n, 2n ** 64n - 1n, "").takes(value),
  what: "a size",
};
const COMPRESSION = between(-1n, 9n, "a level of compression (-1 to 9)");
const or = (words: readonly string[], others: string): Kind => ({
  takes: (value) => words.includes(value?.toLowerCase() ?? "") || BOOLEAN.takes(value),
  what: others,
});
const DENY = or(
  ["ignore", "warn", "refuse", "updateinstead"],
  "refuse, warn, ignore, updateInstead or a boolean",
);

/** Of these each value in the config must be sound, also one that a later one replaces. */
const EACH: ReadonlyMap<string, Kind> = table({
  "receive.denydeletes receive.denynonfastforwards receive.fsckobjects receive.shallowupdate receive.autogc":
    BOOLEAN,
  "receive.updateserverinfo receive.advertiseatomic receive.advertisepushoptions": BOOLEAN,
  "receive.denycurrentbranch receive.denydeletecurrent": DENY,
  "receive.unpacklimit receive.keepalive transfer.unpacklimit": INT,
  "receive.maxinputsize": INT64,
  "receive.certnonceslop": SIZE,
  "transfer.fsckobjects transfer.advertisesid": BOOLEAN,
  "core.bare core.filemode core.ignorecase core.ignorestat core.precomposeunicode core.prefersymlinkrefs":
    BOOLEAN,
  "core.preloadindex core.protecthfs core.protectntfs core.quotepath core.sparsecheckout": BOOLEAN,
  "core.sparsecheckoutcone core.symlinks core.trustctime core.usereplacerefs core.warnambiguousrefs":
    BOOLEAN,
  "core.logallrefupdates": or(["always"], "a boolean or always"),
  "core.autocrlf": or(["input"], "a boolean or input"),
  "core.safecrlf": or(["warn"], "a boolean or warn"),
  "core.bigfilethreshold core.deltabasecachelimit core.packedgitlimit core.packedgitwindowsize":
    SIZE,
  "core.compression core.loosecompression pack.compression": COMPRESSION,
  "pack.packsizelimit": SIZE,
});

/** Of these the last value counts alone. */
const LAST: ReadonlyMap<string, Kind> = table({
  "core.filesreflocktimeout": INT,
  "core.commitgraph core.multipackindex feature.experimental feature.manyfiles": BOOLEAN,
  "fetch.writecommitgraph gc.writecommitgraph index.sparse pack.usesparse": BOOLEAN,
  "index.version": INT,
});

function table(kinds: Readonly<Record<string, Kind>>): Map<string, Kind> {
  return new Map(
    Object.entries(kinds).flatMap(([keys, kind]) =>
      keys.split(" ").map((key) => [key, kind] as const)
    ),
  );
}

/** @throws `config-invalid` for a setting with which git's receive-pack ends too */
export function checkReceiveSettings(config: GitConfig): void {
  const last = new Map<string, string | null>();
  for (const { key, value, level } of config.entries()) {
    // What is given on the command line of the pushing git isn't given to receive-pack.
    if (level === "command") continue;
    check(key, value, EACH.get(key));
    if (LAST.has(key)) last.set(key, value);
  }
  for (const [key, value] of last) check(key, value, LAST.get(key));
}

function check(key: string, value: string | null, kind: Kind | undefined): void {
  if (kind === undefined || kind.takes(value)) return;
  const found = value === null ? "has no value" : `is ${JSON.stringify(value)}`;
  throw new AgentqError(
    "config-invalid",
    `The origin's ${key} ${found}, which is not ${kind.what}.`,
    {
      details: { key },
    },
  );
}

/** `receive.maxInputSize`: null is no limit; nothing is within a negative one, as with git. */
export function maxInputSize(config: GitConfig): number | null {
  const limit = integerOf(lastValue(config, "receive.maxinputsize")) ?? 0n;
  return limit === 0n ? null : Number(limit);
}

/** What becomes of a branch that a work tree has checked out (`receive.denyCurrentBranch`). */
export function denyCurrentBranch(config: GitConfig): "refuse" | "ignore" | "updateInstead" {
  const value = lastValue(config, "receive.denycurrentbranch");
  const word = value?.toLowerCase();
  if (word === "updateinstead") return "updateInstead";
  if (word === "ignore" || word === "warn") return "ignore";
  // A key without `=` is true. Unset is "refuse", too.
  return value !== undefined && parseBoolean(value) === false ? "ignore" : "refuse";
}

function lastValue(config: GitConfig, key: string): string | null | undefined {
  return config.entries().findLast((entry) => entry.key === key)?.value;
}

/** A whole number as git reads it, of any size; null for what is none. */
function integerOf(value: string | null | undefined): bigint | null {
  const match = /^\s*([+-]?)(0x[0-9a-f]+|0[0-7]*|[1-9][0-9]*)([kmg]?)$/i.exec(value ?? "");
  if (!match) return null;
  const digits = match[2]!;
  const number = BigInt(/^0[0-7]/.test(digits) ? `0o${digits.slice(1)}` : digits);
  const scale = { "": 0n, k: 10n, m: 20n, g: 30n }[match[3]!.toLowerCase()]!;
  return (number << scale) * (match[1] === "-" ? -1n : 1n);
}
