/** Merging one path's content: text, binary, drivers, links, submodules. */
import { AgentqError, isAgentqError } from "../errors.ts";
import { commitGraph, isAncestor } from "./graph.ts";
import { isLink, isRegular, isSubmodule, KIND, type Version } from "./entry.ts";
import { hasNul } from "./similarity.ts";
import { byteString, type MergeState, note, pathText } from "./state.ts";
import { mergeTexts } from "./text/merge3.ts";
import type { MergeDriver } from "./types.ts";

export interface ContentMerge {
  readonly clean: boolean;
  readonly result: Version;
}

/** Larger files than this are not merged as text. */
const MAX_TEXT = 1024 * 1024 * 1023;
const MARKER_SIZE = 7;

/**
 * Merges three versions of the same kind (both sides files, links or submodules). `path` decides about
 * attributes; `origins` are the names in the three trees, for the markers; `longerMarkers` keeps the
 * markers of a merge of merges apart from those already in the text.
 */
export function mergeContent(
  state: MergeState,
  path: string,
  [base, ours, theirs]: readonly [Version, Version, Version],
  origins: readonly [string, string, string],
  longerMarkers: number,
): ContentMerge {
  let clean = true;
  let mode: number;
  if (ours.mode === theirs.mode || ours.mode === base.mode) mode = theirs.mode;
  else {
    mode = ours.mode;
    clean = theirs.mode === base.mode;
  }

  if (ours.oid === theirs.oid || ours.oid === base.oid) {
    return { clean, result: { mode, oid: theirs.oid } };
  }
  if (theirs.oid === base.oid) return { clean, result: { mode, oid: ours.oid } };

  const sameKind = (base.mode & KIND) === (ours.mode & KIND);
  if (isRegular(ours.mode)) {
    const merged = mergeFile(
      state,
      path,
      [sameKind ? base.oid : "", ours.oid, theirs.oid],
      origins,
      longerMarkers,
    );
    return { clean: clean && merged.clean, result: { mode, oid: merged.oid } };
  }
  if (isSubmodule(ours.mode)) {
    const merged = mergeSubmodule(
      state,
      origins[0],
      sameKind ? base.oid : "",
      ours.oid,
      theirs.oid,
    );
    if (state.depth > 0 && !sameKind && !merged.clean) return { clean: false, result: base };
    return { clean: merged.clean, result: { mode, oid: merged.oid } };
  }
  if (isLink(ours.mode)) {
    if (state.depth > 0) return { clean: false, result: base };
    return { clean: false, result: { mode, oid: ours.oid } };
  }
  throw new AgentqError("internal", `${pathText(path)} has the mode ${ours.mode.toString(8)}.`);
}

function readBlob(state: MergeState, oid: string): Uint8Array {
  if (oid === "") return new Uint8Array(0);
  const { type, data } = state.db.read(oid);
  if (type !== "blob") {
    throw new AgentqError("repository-corrupt", `Object ${oid} is a ${type}, not a blob.`, {
      details: { oid },
    });
  }
  return data;
}

function mergeFile(
  state: MergeState,
  path: string,
  [baseOid, oursOid, theirsOid]: readonly [string, string, string],
  origins: readonly [string, string, string],
  longerMarkers: number,
): { clean: boolean; oid: string } {
  const { options, db } = state;
  let base = readBlob(state, baseOid);
  let ours = readBlob(state, oursOid);
  let theirs = readBlob(state, theirsOid);
  if (options.renormalize) {
    base = options.renormalize(path, base);
    ours = options.renormalize(path, ours);
    theirs = options.renormalize(path, theirs);
  }

  const attributes = options.attributes?.(path);
  const wanted = attributes?.get("conflict-marker-size");
  const parsed = typeof wanted === "string" ? Number.parseInt(wanted, 10) : Number.NaN;
  const markerSize = (parsed > 0 ? parsed : MARKER_SIZE) + longerMarkers;

  const driver = findDriver(state, attributes?.get("merge"));
  if (driver.custom) {
    if (!driver.custom.command) {
      throw new AgentqError(
        "config-invalid",
        `The merge driver ${driver.name} of ${
          pathText(path)
        } has no command (merge.${driver.name}.driver).`,
      );
    }
    if (!options.runDriver) {
      throw new AgentqError("internal", `Nothing runs the merge driver ${driver.name}.`);
    }
    const run = options.runDriver({
      command: driver.custom.command,
      base,
      ours,
      theirs,
      path,
      markerSize,
    });
    return { clean: run.status === 0, oid: db.write("blob", run.data) };
  }

  const labels = labelsFor(state, origins);
  const big = base.length > MAX_TEXT || ours.length > MAX_TEXT || theirs.length > MAX_TEXT;
  if (driver.name === "binary" || big || hasNul(base) || hasNul(ours) || hasNul(theirs)) {
    if (state.depth > 0) return { clean: true, oid: db.write("blob", base) };
    note(
      state,
      "binary",
      [path],
      `Cannot merge binary files: ${pathText(path)} (${pathText(labels.ours)} vs. ${
        pathText(labels.theirs)
      })`,
    );
    return { clean: false, oid: db.write("blob", ours) };
  }
  const merged = mergeTexts(base, ours, theirs, {
    labels,
    style: options.style,
    markerSize,
    favor: driver.name === "union" ? "both" : undefined,
  });
  const oid = db.write("blob", merged.data);
  if (merged.conflicts > 0) state.regions.set(oid, merged.regions);
  return { clean: merged.conflicts === 0, oid };
}

function labelsFor(
  state: MergeState,
  origins: readonly [string, string, string],
): { base: string; ours: string; theirs: string } {
  const [base, ours, theirs] = state.labels.map((label, i) =>
    origins[0] === origins[1] && origins[1] === origins[2] ? label : `${label}:${origins[i]}`
  ).map((label) => label.replace(/^\.\/+/, "")) as [string, string, string];
  return { base, ours, theirs };
}

/** The driver an attribute asks for: `text`, `binary`, `union`, or one of the configuration's. */
function findDriver(
  state: MergeState,
  attribute: string | boolean | undefined,
): { name: string; custom?: MergeDriver } {
  const byName = (name: string): { name: string; custom?: MergeDriver } => {
    const custom = state.options.drivers?.get(name);
    if (custom) return { name, custom };
    return { name: name === "binary" || name === "union" ? name : "text" };
  };
  // Only a name can mean a driver of the configuration: `merge.text.driver` is no default.
  const asked = attribute ?? state.options.defaultDriver ?? true;
  const driver = typeof asked === "string" ? byName(asked) : { name: asked ? "text" : "binary" };
  const recursive = (driver as { custom?: MergeDriver }).custom?.recursive;
  if (state.depth > 0 && recursive !== undefined) return byName(recursive);
  return driver;
}

/** Submodules merge when one side's commit contains the other's and both contain the base's. */
function mergeSubmodule(
  state: MergeState,
  path: string,
  base: string,
  ours: string,
  theirs: string,
): { clean: boolean; oid: string } {
  const name = pathText(path);
  const fail = (why: string): { clean: boolean; oid: string } => {
    note(state, "submodule", [path], `Failed to merge submodule ${name}${why}`);
    return { clean: false, oid: state.depth > 0 ? base : ours };
  };
  const objects = state.options.submodule?.(path) ?? null;
  if (!objects) return fail(" (not checked out)");
  if (base === "") return fail(" (no merge base)");
  const graph = commitGraph(objects);
  try {
    for (const oid of [base, ours, theirs]) graph.get(oid);
    if (!isAncestor(graph, base, ours) || !isAncestor(graph, base, theirs)) {
      return fail(" (commits don't follow merge-base)");
    }
    for (const [old, oid] of [[ours, theirs], [theirs, ours]] as const) {
      if (!isAncestor(graph, old, oid)) continue;
      note(state, null, [path], `Note: Fast-forwarding submodule ${name} to ${oid}`);
      return { clean: true, oid };
    }
  } catch (error) {
    if (!isAgentqError(error, "object-missing")) throw error;
    return fail(" (commits not present)");
  }
  return fail("");
}

/** Labels as byte strings. */
export const labelBytes = byteString;
