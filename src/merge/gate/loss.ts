/** What the gate knows of one path of a merge, and what it calls a loss there. */
import type { ObjectReader } from "../../git/types.ts";
import type { Version } from "../entry.ts";
import type { Place } from "./layout.ts";
import type { WordSource } from "./words.ts";

/** What one path is in all the trees that matter. */
export interface PathVersions {
  readonly path: string;
  readonly base: Version;
  readonly ours: Version;
  readonly theirs: Version;
  /** What merging gives; with a conflict, the marked text. */
  readonly expected: Version;
  readonly result: Version;
  readonly conflicted: boolean;
  /** Other parents of an octopus had a part in the result, in conflict with these: more than merging these gives. */
  readonly isPartial?: boolean;
  readonly markerSize: number;
}

export interface PathContext {
  readonly db: ObjectReader;
  /** Words that the merge added to paths other than the one judged. */
  elsewhere(): WordSource;
  /** Lines of the files that a side changed, as {@link Texts.written}. */
  written?(): ReadonlySet<string>;
  /** What the parents have at all paths that the merge changed. */
  parents(): readonly Version[];
}

export interface Loss {
  readonly path: string;
  /** Whose work: 0 when it isn't one side's. */
  readonly parent: 0 | 1 | 2;
  readonly what: string;
  /** `first-last` lines, of the result for markers. */
  readonly regions: readonly string[];
  readonly kind: LossKind;
  /** Of lost text: where it belongs in the result. None when that can't be told. */
  readonly places: readonly Place[];
  /** Of lost text: the first of the lines that are missing. */
  readonly text: readonly Uint8Array[];
  /** Where the file stands in the tree that was judged, if under another name. */
  readonly where?: string;
}

/** `whole`: the file's content, as with binaries; `back`: a deleted file that is there again. */
export type LossKind = "markers" | "missing" | "back" | "mode" | "whole" | "text";

/** Says that something is lost at a path. */
export type Lost = (
  kind: LossKind,
  parent: 0 | 1 | 2,
  what: string,
  more?: Partial<Pick<Loss, "regions" | "places" | "text">>,
) => Loss;

export const lossAt = (versions: PathVersions): Lost => (kind, parent, what, more = {}) => ({
  path: versions.path,
  parent,
  what,
  regions: more.regions ?? [],
  kind,
  places: more.places ?? [],
  text: more.text ?? [],
});
