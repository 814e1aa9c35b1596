/** Values of an origin's settings with which git's receive-pack ends: the same push is taken by both or by none. */
import assert from "node:assert/strict";
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { isAgentqError } from "../../../src/errors.ts";
import { openOrigin } from "../../../src/git/origin.ts";
import { openRepository } from "../../../src/git/repository.ts";
import { commit, git, makeRepo, tempDir, tryGit } from "../../helpers/git.ts";

/** Two like origins, and a push of one new commit to both under settings that are written below their own. */
async function pair(...clone: string[]) {
  const work = makeRepo();
  commit(work, "first", { f: "1\n" });
  const origins = [tempDir(), tempDir()] as const;
  for (const at of origins) git(at, "clone", "-q", ...clone, work, ".");
  const paths = origins.map((at) => join(at, git(at, "rev-parse", "--git-dir"), "config"));
  const plain = readFileSync(paths[0]!, "utf8");
  const { objects } = openRepository(work);
  let count = 0;
  return async (settings: string, ref = `refs/x/c${++count}`) => {
    const [theirs, ours] = [1, 2].map((n) => commit(work, `${settings} ${count++} ${n}`));
    for (const path of paths) {
      writeFileSync(path, plain);
      appendFileSync(path, `[gc]\n\tauto = 0\n${settings}`);
    }
    const real = tryGit(work, ["push", "-q", origins[0], `${theirs}:${ref}`]);
    let said = "won";
    try {
      const origin = await openOrigin(origins[1]);
      const old = (await origin.refs([ref])).refs.get(ref) ?? null;
      const outcome = await origin.push([{ ref, old, new: ours! }], objects, {});
      if (outcome.status !== "won") said = `${outcome.status}: ${JSON.stringify(outcome)}`;
      origin.close();
    } catch (error) {
      if (!isAgentqError(error)) throw error;
      said = `${error.code}: ${error.message}`;
    }
    return { git: real.status === 0, stderr: real.stderr, said };
  };
}

/** A line of a config file; undefined is a key without `=`. */
function line(key: string, value: string | undefined): string {
  const [section, name] = key.split(".");
  return `[${section}]\n\t${name}${value === undefined ? "" : ` = "${value}"`}\n`;
}

const BOOLEANS = [
  ...["receive.denyDeletes", "receive.denyNonFastForwards", "receive.fsckObjects"],
  ...["receive.shallowUpdate", "receive.autogc", "receive.updateServerInfo"],
  ...["receive.advertiseAtomic", "receive.advertisePushOptions", "transfer.fsckObjects"],
  ...["transfer.advertiseSID", "core.bare", "core.fileMode", "core.ignoreCase", "core.ignoreStat"],
  ...["core.precomposeUnicode", "core.preferSymlinkRefs", "core.preloadIndex", "core.protectHFS"],
  ...["core.protectNTFS", "core.quotePath", "core.sparseCheckout", "core.sparseCheckoutCone"],
  ...["core.symlinks", "core.trustctime", "core.useReplaceRefs", "core.warnAmbiguousRefs"],
  ...["core.logAllRefUpdates", "core.autocrlf", "core.safecrlf", "core.commitGraph"],
  ...["core.multiPackIndex", "feature.experimental", "feature.manyFiles"],
  ...["fetch.writeCommitGraph", "gc.writeCommitGraph", "index.sparse", "pack.useSparse"],
];
const DENIES = ["receive.denyCurrentBranch", "receive.denyDeleteCurrent"];
const NUMBERS = [
  ...["receive.unpackLimit", "receive.keepAlive", "transfer.unpackLimit", "receive.maxInputSize"],
  ...["receive.certNonceSlop", "core.bigFileThreshold", "core.deltaBaseCacheLimit"],
  ...["core.packedGitLimit", "pack.packSizeLimit", "core.filesRefLockTimeout", "index.version"],
];
const LEVELS = ["core.compression", "core.looseCompression", "pack.compression"];

/** Each key, and values of which some are none. */
const CASES: [string, (string | undefined)[]][] = [
  ...BOOLEANS.map((key) => [key, ["bogus", "3g"]] as [string, string[]]),
  ["receive.autogc", [undefined, "", "08", "No", "2"]],
  ["core.logAllRefUpdates", ["Always", "never"]],
  ["core.autocrlf", ["Input", "warn"]],
  ["core.safecrlf", ["Warn", "input"]],
  ...DENIES.map((key) =>
    [key, [undefined, "", "bogus", "Warn", "ignore", "refuse", "UpdateInstead", "off", "2"]] as [
      string,
      string[],
    ]
  ),
  ...NUMBERS.map((key) => [key, [undefined, "bogus", "", "2147483648"]] as [string, string[]]),
  ["receive.unpackLimit", ["2147483647", "3g", "-1", "-2g", "0x10", "010", "08", " 5", "5 "]],
  [
    "receive.maxInputSize",
    ["-1", "9223372036854775807", "9223372036854775808", "9007199254740993", "1g", "08", "010"],
  ],
  ["core.bigFileThreshold", ["-1", "-0", "1.5", "18446744073709551615", "18446744073709551616"]],
  ["core.packedGitWindowSize", ["x"]],
  ["core.filesRefLockTimeout", ["-1", "3g"]],
  ...LEVELS.map((key) => [key, [undefined, "", "x", "-2", "-1", "9", "10"]] as [string, string[]]),
  // Only who deletes refs reads it, and these are none of the receiving side's.
  ["core.packedRefsTimeout", ["x"]],
  ["fetch.prune", ["x"]],
  ["gc.packRefs", ["x"]],
];

test("what isn't a value of its setting is config-invalid where git's receive-pack ends over it", async () => {
  const push = await pair("--bare");
  const wrong: string[] = [];
  let refused = 0;
  for (const [key, values] of CASES) {
    for (const value of values) {
      const { git, stderr, said } = await push(line(key, value));
      const told = `${key} = ${value}\ngit: ${git} ${stderr}\nagentq: ${said}`;
      if (git !== (said === "won")) wrong.push(told);
      // A limit of nothing is a refusal; all the rest names the setting.
      if (git || stderr.includes("maximum allowed size")) continue;
      refused++;
      const name = said.startsWith("config-invalid: ") &&
        said.toLowerCase().includes(key.toLowerCase());
      if (!name) wrong.push(told);
    }
  }
  assert.deepEqual(wrong, []);
  assert.ok(refused > 100, `${refused}`);
});

test("of most settings each value counts, of some the last alone, as git reads them", async () => {
  const push = await pair("--bare");
  for (
    const [key, bad, good] of [
      ["receive.denyDeletes", "bogus", "true"],
      ["receive.denyCurrentBranch", "bogus", "warn"],
      ["core.compression", "10", "1"],
      ["receive.unpackLimit", "x", "1"],
      ["core.filesRefLockTimeout", "x", "100"],
      ["core.commitGraph", "x", "true"],
      ["index.version", "x", "4"],
    ] as const
  ) {
    for (const [first, second] of [[bad, good], [good, bad]]) {
      const { git, stderr, said } = await push(line(key, first) + line(key, second));
      assert.equal(said === "won", git, `${key} ${first} ${second}: ${said} / ${stderr}`);
    }
  }
});

test("receive.denyCurrentBranch is read as git reads it, without a value and with an empty one too", async () => {
  const push = await pair();
  for (const value of [undefined, "", "off", "0", "Ignore", "warn", "refuse", "on", "2", "bogus"]) {
    const { git, stderr, said } = await push(
      line("receive.denyCurrentBranch", value),
      "refs/heads/main",
    );
    assert.equal(said === "won", git, `${value}: ${said} / ${stderr}`);
  }
});
