/**
 * Pushes commits of a clone to an origin; run as a process of its own. Prints what became of it, one line a push.
 *
 *   push-child.ts ORIGIN CLONE REF=OLD:NEW…     (an OLD of - for none; one push of each)
 */
import process from "node:process";
import { openOrigin } from "../../../src/git/origin.ts";
import { openRepository } from "../../../src/git/repository.ts";

const [url, clone, ...updates] = process.argv.slice(2) as [string, string, ...string[]];
const origin = await openOrigin(url);
const { objects } = openRepository(clone);
for (const update of updates) {
  const [, ref, old, oid] = /^(.+)=(.+):(.+)$/.exec(update)!;
  const change = { ref: ref!, old: old === "-" ? null : old!, new: oid! };
  try {
    console.log((await origin.push([change], objects, {})).status);
  } catch (error) {
    console.log((error as Error).message);
  }
}
process.exit(0);
