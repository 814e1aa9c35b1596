/** What servers say of a lock that is in the way, in their several wordings. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { contentionOf } from "../../src/git/protocol/contention.ts";

const A = "a".repeat(40);
const B = "b".repeat(40);
const REF = "refs/weave/main/queue";

const said = (reason: string, ...lines: string[]) =>
  contentionOf({ refused: [{ ref: REF, reason }], remoteOutput: lines.join("\n") });

const LOCKED: readonly [who: string, reason: string, ...lines: string[]][] = [
  [
    "git, files",
    "atomic transaction failed",
    `error: cannot lock ref '${REF}': Unable to create '/srv/o.git/${REF}.lock': File exists.`,
    "",
    "Another git process seems to be running in this repository, e.g.",
    "an editor opened by 'git commit'. Please make sure all processes",
  ],
  [
    "git that names the owner",
    "atomic transaction failed",
    `error: cannot lock ref '${REF}': Unable to create '/srv/o.git/./${REF}.lock': File exists.`,
    "",
    "Lock may be held by process 4711; if no git process is running, the lock file may be stale",
  ],
  [
    "git, German",
    "atomic transaction failed",
    `error: cannot lock ref '${REF}': Konnte '/srv/o.git/${REF}.lock' nicht erstellen: Die Datei existiert bereits.`,
  ],
  [
    "git that updates without a transaction",
    "failed to update ref",
    `error: cannot lock ref '${REF}': Unable to create '/srv/o.git/${REF}.lock': File exists.`,
  ],
  ["git, reftable", "atomic transaction failed", "error: cannot lock references"],
  [
    "git, reftable, at another moment",
    "atomic transaction failed",
    "error: reftable: transaction prepare: data is locked",
  ],
  [
    "git, reftable, compacted meanwhile",
    "atomic transaction failed",
    "error: reftable: transaction prepare: data concurrently modified",
  ],
  ["in the report itself", "failed to lock"],
  [
    "the whole reason in the report",
    `cannot lock ref '${REF}': Unable to create '/data/${REF}.lock': File exists.`,
  ],
];

describe("a lock in the way", () => {
  for (const [who, reason, ...lines] of LOCKED) {
    test(who, () => {
      const found = said(reason, ...lines);
      assert.equal(found?.kind, "locked");
      assert.equal(found.ref, REF);
    });
  }

  test("of one ref among several is named", () => {
    const found = contentionOf({
      refused: ["refs/heads/main", REF].map((ref) => ({
        ref,
        reason: "atomic transaction failed",
      })),
      remoteOutput:
        `hello\nerror: cannot lock ref '${REF}': Unable to create '/o/${REF}.lock': File exists.`,
    });
    assert.equal(found?.ref, REF);
    assert.match(found.words, /^error: cannot lock ref/);
  });
});

describe("a ref that is elsewhere", () => {
  const moved = [
    ["atomic transaction failed", `error: cannot lock ref '${REF}': is at ${A} but expected ${B}`],
    [`cannot lock ref '${REF}': is at ${A} but expected ${B}`],
    [
      "atomic transaction failed",
      `error: cannot lock ref '${REF}': reference is missing but expected ${A}`,
    ],
    ["incorrect old value provided"],
  ] as const;
  for (const [reason, ...lines] of moved) {
    test([reason, ...lines].at(-1)!, () => assert.equal(said(reason, ...lines)?.kind, "moved"));
  }
});

describe("a refusal", () => {
  const refused = [
    ["hook declined", `error: cannot lock ref '${REF}': Unable to create 'x.lock': File exists.`],
    ["pre-receive hook declined", "try again: data is locked"],
    ["deny updating a hidden ref"],
    ["protected branch hook declined", "GH006: Protected branch update failed"],
    ["atomic transaction failed", `error: cannot lock ref '${REF}': reference already exists`],
    [
      "atomic transaction failed",
      `error: cannot lock ref '${REF}': Unable to create '/o/${REF}.lock': Permission denied`,
    ],
    [
      "atomic transaction failed",
      `error: cannot lock ref '${REF}': Unable to create '/o/${REF}.lock': No space left on device`,
    ],
    [
      "atomic transaction failed",
      `error: cannot lock ref '${REF}': 'refs/weave' exists; cannot create '${REF}'`,
    ],
    ["atomic transaction failed"],
  ] as const;
  for (const [reason, ...lines] of refused) {
    test([reason, ...lines].join(": "), () => assert.equal(said(reason, ...lines), null));
  }
});
