/**
 * Merging in a partial clone: the first blob that turns out to be missing stands for all that the merge
 * is going to read, so that whoever fetches them asks once, not once for each file.
 */
import { AgentqError, isAgentqError } from "../errors.ts";
import type { Oid } from "../git/types.ts";
import { isLink, isRegular, type Version } from "./entry.ts";
import type { MergeState } from "./state.ts";

/** `object-missing` naming, in details.oids, everything of its kind; any other error as it is. */
export function namingAllMissing(state: MergeState, error: unknown): unknown {
  const first = isAgentqError(error, "object-missing") ? error.details?.oid : undefined;
  if (typeof first !== "string") return error;
  const wanted = new Set<Oid>();
  const want = ({ mode, oid }: Version) => {
    if (isRegular(mode) || isLink(mode)) wanted.add(oid);
  };
  for (const entry of state.paths.values()) if (!entry.clean) entry.stages.forEach(want);
  if (!wanted.has(first)) {
    // Not a file that both sides changed: one that renames are looked for in.
    for (const { one, two } of state.renames.sides.flatMap(({ pairs }) => pairs)) {
      want(one);
      want(two);
    }
  }
  const oids = [...new Set([first, ...wanted])].filter((oid) => !state.db.has(oid));
  if (oids.length < 2) return error;
  const { code, message, hint } = error as AgentqError;
  return new AgentqError(code, message, { cause: error, hint, details: { oid: first, oids } });
}
