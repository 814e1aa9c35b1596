/** One file's merge, settled in some way, and what the gate says. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { serializeCommit } from "../../src/git/commit.ts";
import { serializeTree } from "../../src/git/tree.ts";
import type { Oid } from "../../src/git/types.ts";
import { checkGate, type GateVerdict } from "../../src/merge/gate.ts";
import { overlay } from "../../src/merge/overlay.ts";

const missing = (oid: Oid): never => assert.fail(`${oid} is missing`);
const WHO = "A <a@b> 1700000000 +0000";

/** The verdict on a merge of `hers` (the branch) and `his` (the candidate) that was settled as `result`. */
export function judge(
  [base, hers, his, result]: readonly [string, string, string, string],
  drops: readonly string[] = [],
): GateVerdict {
  const db = overlay({ read: missing, has: () => false, stat: missing });
  const commit = (text: string, parents: Oid[], message = "x\n"): Oid => {
    const oid = db.write("blob", Buffer.from(text));
    const tree = db.write("tree", serializeTree([{ path: "f", mode: 0o100644, oid }]));
    return db.write(
      "commit",
      serializeCommit({ tree, parents, author: WHO, committer: WHO, message }),
    );
  };
  const root = commit(base, []);
  const tip = commit(hers, [root], "hers\n");
  const candidate = commit(result, [commit(his, [root], "his\n"), tip]);
  return checkGate(db, { tip, candidate, drops });
}

const lines = (n: number, name: string): string =>
  Array.from({ length: n }, (_, i) => `${name} ${i} of the file\n`).join("");
/** In a file with more in it. */
export const within = (text: string): string => lines(8, "head") + text + lines(8, "tail");

/** A file as both found it, as the branch made it, and as the candidate did. */
export type Texts = readonly [base: string, hers: string, his: string];

/** Refused whichever side is whose. */
export function refused([base, hers, his]: Texts, result: string, report = /./): void {
  for (const [a, b] of [[hers, his], [his, hers]] as const) {
    const verdict = judge([base, a, b, result]);
    assert.ok(!verdict.ok, "the gate let it through");
    assert.match(verdict.report, report);
  }
}

/** Let through whichever side is whose. */
export function passes([base, hers, his]: Texts, result: string): void {
  for (const [a, b] of [[hers, his], [his, hers]] as const) {
    assert.deepEqual(judge([base, a, b, result]), { ok: true });
  }
}
