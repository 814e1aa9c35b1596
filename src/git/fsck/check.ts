/**
 * The check that `receive.fsckObjects` asks for, of all that a push brings. The same objects are let in
 * and refused as by git's `unpack-objects --strict`, or by `index-pack --strict` from as many objects on
 * as `receive.unpackLimit` says.
 */
import { isAgentqError } from "../../errors.ts";
import type { GitConfig } from "../config.ts";
import type { Enumerated } from "../enumerate.ts";
import { asBuffer } from "../oid.ts";
import { isGitlinkMode, isTreeMode } from "../tree.ts";
import type { ObjectReader, ObjectType, Oid } from "../types.ts";
import { checkCommit, checkTag } from "./headers.ts";
import { Fault, type MessageId, type Report } from "./messages.ts";
import { type FsckSettings, readFsckSettings } from "./settings.ts";
import { checkGitattributes, checkGitmodules } from "./special-files.ts";
import { checkTree, rawEntries, type SpecialFiles } from "./tree.ts";

export interface Received {
  /** The origin's, which says what is checked. */
  readonly config: GitConfig;
  readonly gitDir: string;
  /** Reads all objects, the origin's own where it has them. */
  readonly objects: ObjectReader;
  readonly list: readonly Enumerated[];
}

/**
 * Why the origin refuses these objects, in words that name the object and git's message id; null when it
 * takes them or checks nothing.
 * @throws `config-invalid` when the origin's settings stop git too, `object-missing`
 */
export function refusedByFsck({ config, gitDir, objects, list }: Received): string | null {
  const settings = readFsckSettings(config, gitDir);
  if (settings === null) return null;
  const limit = config.getInteger("receive.unpackLimit") ??
    config.getInteger("transfer.unpackLimit") ?? -1;
  const indexed = list.length >= (limit < 0 ? 100 : limit);
  const large = indexed ? config.getInteger("core.bigFileThreshold") ?? 512 * 2 ** 20 : Infinity;
  try {
    // What a partial clone lacks was promised to it, as what it is.
    const partial = config.get("extensions.partialClone") !== null;
    const is = (oid: Oid, wanted: string) => {
      const type = typeOf(objects, oid);
      return type === wanted || (type === null && partial);
    };
    checkAll(settings, objects, list, large, is);
    return null;
  } catch (error) {
    if (error instanceof Fault) return error.message;
    throw error;
  }
}

/** Whether an object is there and of that type. */
type IsType = (oid: Oid, wanted: string) => boolean;

function checkAll(
  settings: FsckSettings,
  objects: ObjectReader,
  list: readonly Enumerated[],
  /** Bytes above which index-pack doesn't read a file that is sent. */
  large: number,
  is: IsType,
): void {
  const special: SpecialFiles = { gitmodules: new Set(), gitattributes: new Set() };
  for (const { oid, type, base } of list) {
    if (type === "blob") continue;
    const { data } = objects.read(oid);
    const report = reporter(settings, type, oid);
    if (type === "tree") {
      checkTree(data, report, special);
      checkEntries(oid, data, base, objects, is);
    } else {
      const content = asBuffer(data).toString("latin1");
      if (type === "commit") checkCommit(content, report);
      else checkTag(content, report);
      checkLinks(type, oid, content, is);
    }
  }
  const sent = new Set(list.map(({ oid }) => oid));
  for (const kind of ["gitmodules", "gitattributes"] as const) {
    const check = kind === "gitmodules" ? checkGitmodules : checkGitattributes;
    for (const oid of special[kind]) {
      if (settings.skips(oid)) continue;
      const type = typeOf(objects, oid);
      const report = reporter(settings, type ?? "blob", oid);
      if (type === null && is(oid, "blob")) continue;
      if (type === null) report(`${kind}Missing`, `the name .${kind} and is missing`);
      else if (type !== "blob") report(`${kind}Blob`, `the name .${kind} and is no file`);
      else if (sent.has(oid) && objects.stat(oid).size > large) {
        report(`${kind}Large`, `the name .${kind} and is too large to be checked`);
      } else check(objects.read(oid).data, report);
    }
  }
}

function reporter(settings: FsckSettings, type: ObjectType, oid: Oid): Report {
  return (id: MessageId, what: string) => {
    if (settings.skips(oid) || !settings.refuses(id)) return;
    throw refusal(type, oid, `has ${what} (${id})`);
  };
}

const refusal = (type: ObjectType, oid: Oid, what: string) =>
  new Fault(`the origin checks objects, and ${type} ${oid} ${what}`);

/** Whatever a setting excuses: git can't do without these, and each must be what it is named as. */
function checkLinks(
  type: "commit" | "tag",
  oid: Oid,
  content: string,
  is: IsType,
): void {
  const links: [string, Oid][] = [];
  if (type === "commit") {
    const match = /^tree ([0-9a-f]{40})\n((?:parent [0-9a-f]{40}\n)*)/i.exec(content);
    if (!match) throw refusal(type, oid, "is malformed");
    links.push(["tree", match[1]!]);
    for (const line of match[2]!.split("\n").filter(Boolean)) links.push(["commit", line.slice(7)]);
  } else {
    const match = /^object ([0-9a-f]{40})\ntype (blob|tree|commit|tag)\ntag [^\n]*\n/i.exec(
      content,
    );
    if (!match) throw refusal(type, oid, "is malformed");
    links.push([match[2]!, match[1]!]);
  }
  for (const [wanted, target] of links) {
    if (!is(target.toLowerCase(), wanted)) {
      throw refusal(type, oid, `names ${target}, which is no ${wanted}`);
    }
  }
}

/** The same of a tree's entries. What stood in the tree before needs no second look. */
function checkEntries(
  oid: Oid,
  data: Uint8Array,
  base: Oid | undefined,
  objects: ObjectReader,
  is: IsType,
) {
  const entries = rawEntries(data);
  if (entries === null) throw refusal("tree", oid, "is malformed");
  const key = (mode: number, target: Oid) => `${isTreeMode(mode)} ${target}`;
  const known = new Set<string>();
  if (base !== undefined && typeOf(objects, base) === "tree") {
    for (const entry of rawEntries(objects.read(base).data) ?? []) {
      if (!isOther(entry.mode)) known.add(key(entry.mode, entry.oid));
    }
  }
  for (const { mode, name, oid: target } of entries) {
    // An entry of no known kind is a gitlink to git.
    if (isOther(mode) || known.has(key(mode, target))) continue;
    const wanted = isTreeMode(mode) ? "tree" : "blob";
    if (!is(target, wanted)) {
      throw refusal(
        "tree",
        oid,
        `names ${target} as ${JSON.stringify(name)}, which is no ${wanted}`,
      );
    }
  }
}

const isOther = (mode: number) =>
  isGitlinkMode(mode) || ![0o040000, 0o100000, 0o120000].includes(mode & 0o170000);

function typeOf(objects: ObjectReader, oid: Oid): ObjectType | null {
  try {
    return objects.stat(oid).type;
  } catch (error) {
    if (isAgentqError(error, "object-missing")) return null;
    throw error;
  }
}
