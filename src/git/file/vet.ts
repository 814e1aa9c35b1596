/** What a push asks for, held against what the origin has and says, before anything is written. */
import process from "node:process";
import { AgentqError, isAgentqError } from "../../errors.ts";
import { type GitConfig, openConfig } from "../config.ts";
import { parseConfig } from "../config-file.ts";
import { readConfigFile } from "../config-sources.ts";
import { enumerate, type Enumerated } from "../enumerate.ts";
import { refusedByFsck } from "../fsck/check.ts";
import { isOid, ZERO_OID } from "../oid.ts";
import { refuseForeignOrigin } from "../ownership.ts";
import { checkRefName } from "../ref-name.ts";
import { listRefs } from "../refs.ts";
import type { Repository } from "../repository.ts";
import type { ObjectReader, PushOptions, RefUpdate } from "../types.ts";
import type { HeldRepository } from "./hold.ts";
import { hiddenUpdate, refusedByPolicy, tooLarge } from "./receive-policy.ts";
import { movedRefs } from "./ref-transaction.ts";

export type Vetted =
  | { readonly status: "lost"; readonly refs: readonly string[] }
  /** All of them, but where `culprit` is the one. */
  | { readonly status: "refused"; readonly reason: string; readonly culprit?: string }
  | {
    readonly status: "sound";
    /** The origin's, as it is now. */
    readonly config: GitConfig;
    /** What the origin lacks, in an order to be packed in. */
    readonly list: readonly Enumerated[];
    /** A reader of both sides. */
    readonly objects: ObjectReader;
  };

/** @throws `repository-foreign`, `object-missing`, `config-invalid` */
export function vetPush(
  origin: Repository,
  held: HeldRepository,
  updates: readonly RefUpdate[],
  from: ObjectReader,
  options: Pick<PushOptions, "remoteHas">,
): Vetted {
  // Read anew each time: an operator's change must not wait for a watching lander to end.
  const config = currentConfig(origin, held);
  const { workTree, gitDir, bare, commonDir } = origin;
  refuseForeignOrigin({ workTree, gitDir, commonDir, config }, process.env);
  const objects = union(from, origin.objects);
  // Before anything is called lost: what is hidden when it is read could never be won.
  const hidden = hiddenUpdate(config, updates);
  if (hidden) return { status: "refused", reason: hidden.reason, culprit: hidden.ref };
  const moved = movedRefs(held.commonDir, updates);
  if (moved.length > 0) return { status: "lost", refs: moved };
  const policy = refusedByPolicy({ ...held, bare }, config, updates, objects);
  if (policy) return { status: "refused", reason: policy.reason, culprit: policy.ref };

  const list = newObjects(origin, held, objects, updates, options);
  // The origin's own come first, which is where git looks too: a clone may have to fetch them.
  const checked = union(origin.objects, from);
  const bad = refusedByFsck({ config, gitDir, objects: checked, list }) ??
    tooLarge(config, objects, list);
  return bad ? { status: "refused", reason: bad } : { status: "sound", config, list, objects };
}

/** @throws `internal`, `ref-name-invalid` */
export function checkUpdates(updates: readonly RefUpdate[]): void {
  const names = new Set<string>();
  for (const { ref, old, new: oid } of updates) {
    checkRefName(ref);
    if (names.has(ref)) throw new AgentqError("internal", `A push names ${ref} twice.`);
    names.add(ref);
    if (!isOid(oid) || oid === ZERO_OID || (old !== null && !isOid(old))) {
      throw new AgentqError("internal", `A push of ${ref} has a malformed id.`);
    }
  }
}

function currentConfig(origin: Repository, held: HeldRepository): GitConfig {
  const { gitDir, commonDir } = origin;
  const path = `${commonDir}/config`;
  const local = parseConfig(readConfigFile(`${held.commonDir}/config`) ?? "", path);
  const worktreeConfig = origin.config.getBoolean("extensions.worktreeConfig") ?? false;
  const branch = () => origin.refs.read("HEAD")?.target ?? null;
  return openConfig({ repository: { gitDir, commonDir, worktreeConfig, branch, local } });
}

/** What the origin lacks. Reading both sides, a shallow or partial clone is no hindrance. */
function newObjects(
  origin: Repository,
  held: HeldRepository,
  both: ObjectReader,
  updates: readonly RefUpdate[],
  options: Pick<PushOptions, "remoteHas">,
): Enumerated[] {
  const claimed = options.remoteHas ?? listRefs(held, ["refs/heads/"]).map(({ oid }) => oid);
  const olds = updates.flatMap(({ old }) => old ?? []);
  const haves = [...new Set([...claimed, ...olds])].filter((oid) => origin.objects.has(oid));
  return [...enumerate(both, updates.map((update) => update.new), haves)];
}

function union(first: ObjectReader, second: ObjectReader): ObjectReader {
  const either = <T>(read: (reader: ObjectReader) => T): T => {
    try {
      return read(first);
    } catch (error) {
      if (!isAgentqError(error, "object-missing")) throw error;
      try {
        return read(second);
      } catch (again) {
        throw isAgentqError(again, "object-missing") ? error : again;
      }
    }
  };
  return {
    read: (oid) => either((reader) => reader.read(oid)),
    stat: (oid) => either((reader) => reader.stat(oid)),
    has: (oid) => first.has(oid) || second.has(oid),
  };
}
