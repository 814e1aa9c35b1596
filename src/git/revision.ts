/**
 * Revisions as people write them: HEAD, @, names, (abbreviated) ids, `^`, `^n`, `~n`, `^{type}`,
 * `@{upstream}`. What agentq needs of gitrevisions(7), and the rest refused by name.
 */
import { AgentqError } from "../errors.ts";
import { parseCommit } from "./commit.ts";
import { commitInfo } from "./history.ts";
import { isOid } from "./oid.ts";
import { isPseudoRef, isRefName } from "./ref-name.ts";
import type { Repository } from "./repository.ts";
import { parseTag, peel } from "./tag.ts";
import type { ObjectType, Oid } from "./types.ts";

function unknown(rev: string, why: string, hint?: string): AgentqError {
  return new AgentqError("revision-unknown", `${JSON.stringify(rev)} ${why}.`, {
    ...(hint === undefined ? {} : { hint }),
    details: { revision: rev },
  });
}

/** Where git looks for a name, first match first. */
const RULES = ["", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"];

/**
 * The full ref a short name means (`main` → `refs/heads/main`), symbolic refs not followed; null when
 * there is none.
 */
export function expandRefName(repository: Repository, name: string): string | null {
  const candidates = [...RULES.map((rule) => rule + name), `refs/remotes/${name}/HEAD`];
  for (const full of candidates) {
    if (!(full.startsWith("refs/") ? isRefName(full) : isPseudoRef(full))) continue;
    if (repository.refs.read(full)) return full;
  }
  return null;
}

/** The remote-tracking ref that `branch` (`refs/heads/x`) follows. @throws `revision-unknown` */
export function upstreamOf(repository: Repository, branch: string): string {
  const short = branch.replace(/^refs\/heads\//, "");
  const { config } = repository;
  const remote = config.get(`branch.${short}.remote`);
  const merge = config.get(`branch.${short}.merge`);
  if (!remote || !merge) {
    throw unknown(
      `${short}@{upstream}`,
      "has no upstream configured",
      `Set it: git branch --set-upstream-to=origin/${short} ${short}`,
    );
  }
  if (remote === ".") return merge;
  for (const spec of config.getAll(`remote.${remote}.fetch`)) {
    const match = /^\+?([^:^]*):(.*)$/.exec(spec);
    if (!match) continue;
    const [source, target] = [match[1]!, match[2]!];
    const star = source.indexOf("*");
    if (star < 0) {
      if (source === merge) return target;
      continue;
    }
    const [before, after] = [source.slice(0, star), source.slice(star + 1)];
    if (
      merge.length >= before.length + after.length && merge.startsWith(before) &&
      merge.endsWith(after)
    ) return target.replace("*", () => merge.slice(before.length, merge.length - after.length));
  }
  throw unknown(`${short}@{upstream}`, `follows ${merge} of ${remote}, which is not fetched here`);
}

/** The object a name without suffixes means. */
function resolveName(repository: Repository, name: string, rev: string): Oid {
  if (isOid(name.toLowerCase())) return name.toLowerCase();
  const full = expandRefName(repository, name);
  if (full) {
    const oid = repository.refs.get(full);
    if (oid) return oid;
    if (full === "HEAD") throw unknown(rev, "names a branch without commits");
  }
  if (/^[0-9a-fA-F]{4,39}$/.test(name)) {
    return resolveAbbreviation(repository, name.toLowerCase(), rev);
  }
  // The output of git describe: only the id counts.
  const described = /-g([0-9a-f]{4,40})$/.exec(name);
  if (described) return resolveName(repository, described[1]!, rev);
  throw unknown(rev, "is neither a ref nor an object in this clone");
}

function resolveAbbreviation(repository: Repository, prefix: string, rev: string): Oid {
  const found = repository.objects.prefixed(prefix, 64);
  if (found.length === 1) return found[0]!;
  if (found.length === 0) throw unknown(rev, "is neither a ref nor an object in this clone");
  // Where a commit is wanted, and here one always is, git takes the only one that leads to a commit.
  const commits = found.filter((oid) => {
    const { type } = repository.objects.stat(oid);
    return type === "commit" || type === "tag" && peel(repository.objects, oid).type === "commit";
  });
  if (commits.length === 1) return commits[0]!;
  throw new AgentqError(
    "revision-ambiguous",
    `${JSON.stringify(rev)} is ambiguous: it begins ${
      found.length < 64 ? found.length : "many"
    } object ids.`,
    {
      details: { revision: rev, candidates: found },
    },
  );
}

/** Takes tags (and, for a tree, the commit) off until an object of `type` is reached. */
function peelTo(repository: Repository, oid: Oid, type: ObjectType | "any", rev: string): Oid {
  for (;;) {
    const found = repository.objects.stat(oid).type;
    if (found === type || type === "any" && found !== "tag") return oid;
    if (found === "tag") oid = parseTag(repository.objects.read(oid).data, oid).object;
    else if (found === "commit" && type === "tree") {
      return parseCommit(repository.objects.read(oid).data, oid).tree;
    } else throw unknown(rev, `is a ${found}, not a ${type}`);
  }
}

/**
 * Resolves a revision to an object id. Tags are taken off only where a suffix asks; use
 * {@link resolveCommit} where a commit is wanted.
 * @throws `revision-unknown`, `revision-ambiguous`, `object-missing`
 */
export function resolveRevision(repository: Repository, rev: string): Oid {
  const suffix = /(?:\^\{[^}]*\}|\^[0-9]*|~[0-9]*|@\{[^}]*\})$/;
  const suffixes: string[] = [];
  let name = rev;
  for (let match = suffix.exec(name); match && match[0] !== ""; match = suffix.exec(name)) {
    suffixes.unshift(match[0]);
    name = name.slice(0, -match[0].length);
  }
  if (name === "" && !suffixes[0]?.startsWith("@{") || /[\0\n]/.test(name)) {
    throw unknown(rev, "is not a revision");
  }
  if (name === "@") name = "HEAD";
  let oid: Oid | null = null;
  if (suffixes[0]?.startsWith("@{")) {
    const what = suffixes.shift()!.slice(2, -1).toLowerCase();
    if (what !== "u" && what !== "upstream") {
      throw unknown(rev, "asks for the reflog, which is not read");
    }
    let branch: string | null = name === "" || name === "HEAD"
      ? repository.head().branch
      : expandRefName(repository, name);
    if (branch === "HEAD") branch = repository.head().branch;
    if (!branch?.startsWith("refs/heads/")) {
      throw unknown(rev, "asks for the upstream of something that is no branch");
    }
    const upstream = upstreamOf(repository, branch);
    oid = repository.refs.get(upstream);
    if (!oid) {
      throw unknown(rev, `follows ${upstream}, which does not exist here`, "Run git fetch.");
    }
  }
  oid ??= resolveName(repository, name, rev);
  for (const part of suffixes) oid = applySuffix(repository, oid, part, rev);
  return oid;
}

function applySuffix(repository: Repository, oid: Oid, part: string, rev: string): Oid {
  if (part.startsWith("^{")) {
    const type = part.slice(2, -1);
    if (type === "") return peelTo(repository, oid, "any", rev);
    if (type === "object") return oid;
    if (type === "commit" || type === "tree" || type === "blob" || type === "tag") {
      return peelTo(repository, oid, type, rev);
    }
    throw unknown(rev, `asks for ${part}, which is not supported`);
  }
  if (part.startsWith("@{")) throw unknown(rev, `asks for ${part}, which is not supported`);
  const number = part.length === 1 ? 1 : Number(part.slice(1));
  let commit = peelTo(repository, oid, "commit", rev);
  if (part.startsWith("^")) {
    if (number === 0) return commit;
    const parent = commitInfo(repository.objects, commit).parents[number - 1];
    if (!parent) throw unknown(rev, `leads past the last parent of ${commit}`);
    return parent;
  }
  for (let i = 0; i < number; i++) {
    const parent = commitInfo(repository.objects, commit).parents[0];
    if (!parent) throw unknown(rev, `leads past the root ${commit}`);
    commit = parent;
  }
  return commit;
}

/** Resolves a revision to a commit, taking tags off. @throws as {@link resolveRevision} */
export function resolveCommit(repository: Repository, rev: string): Oid {
  const oid = resolveRevision(repository, rev);
  return peelTo(repository, oid, "commit", rev);
}
