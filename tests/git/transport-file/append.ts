/**
 * Appends commits to a chain in an origin, as fast as it can, telling apart what became of each push:
 * run as a process of its own, many at once. Prints one line a commit that was won.
 *
 *   append.ts ORIGIN CLONE REF COUNT NAME
 */
import { Buffer } from "node:buffer";
import process from "node:process";
import { openOrigin } from "../../../src/git/origin.ts";
import { openRepository } from "../../../src/git/repository.ts";
import { EMPTY_TREE } from "../../../src/git/types.ts";

const [url, clone, ref, count, name] = process.argv.slice(2) as [
  string,
  string,
  string,
  string,
  string,
];
const origin = await openOrigin(url);
const { objects } = openRepository(clone);
for (let i = 0; i < Number(count);) {
  const head = (await origin.refs([ref])).refs.get(ref) ?? null;
  const commit = Buffer.from(
    `tree ${EMPTY_TREE}\n${head ? `parent ${head}\n` : ""}` +
      `author a <a@b> 1700000000 +0000\ncommitter a <a@b> 1700000000 +0000\n\n${name} ${i}\n`,
  );
  const oid = objects.write("commit", commit);
  const second = ref.replace("refs/weave/", "refs/twin/");
  const outcome = await origin.push(
    [
      { ref, old: head, new: oid },
      { ref: second, old: head, new: oid },
    ],
    objects,
    { remoteHas: head ? [head] : [] },
  );
  if (outcome.status === "won") {
    process.stdout.write(`${oid}\n`);
    i++;
  } else if (outcome.status !== "lost") throw new Error(JSON.stringify(outcome));
}
process.exit(0);
