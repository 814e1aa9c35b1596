/**
 * What brings the work back that merge commits lost: commands that are right when followed as they stand.
 *
 * ```text
 *  a file is back under the name that a side took from it ─▶ git mv (a directory's files at once)
 *  a deleted file is back ─────────────────────────────────▶ git rm; if it was changed: or --drop
 *  gone, and one side's alone ─────────────────────────────▶ that side's version
 *  there, with nothing that the side's version hasn't ─────▶ that side's version
 *  there with more, and both changes fit together ─────────▶ the side's change, applied
 *  anything else ──────────────────────────────────────────▶ an edit, of the file that is there
 * ```
 *
 * Each is tried on a draft of the candidate's tree, one after the other: what later commits and other merges made of a
 * path isn't overwritten, and the gate has to be content with what comes of it.
 */
import { Buffer } from "node:buffer";
import type { CommitReader } from "../../git/history.ts";
import type { Oid } from "../../git/types.ts";
import { isRegular, sameVersion, type Version } from "../entry.ts";
import {
  applyChange,
  bringFile,
  changeMode,
  dropFlag,
  inCommit,
  moveFile,
  pathspec,
  removeFile,
} from "./commands.ts";
import { shellPath } from "../../git/path-quote.ts";
import { type Draft, draftOf } from "./draft.ts";
import type { Loss } from "./loss.ts";
import { commitTree, type JudgedLoss } from "./merge.ts";
import { renamesBack } from "./renames-back.ts";
import { readTexts, textOf } from "./texts.ts";
import { mergeTexts } from "../text/merge3.ts";
import { treePaths } from "../tree-paths.ts";

/** For so many paths of each kind there is advice. */
const ADVISED = 8;
/** So many paths are looked at. */
const JUDGED = 64;

/** A loss of a merge, and what of it stands at the candidate's tip. */
export interface StandingLoss {
  readonly judged: JudgedLoss;
  readonly loss: Loss;
}

interface Merge {
  readonly oid: Oid;
  readonly sides: readonly { readonly oid: Oid }[];
  readonly losses: readonly StandingLoss[];
}

/** Lines of advice for each of some merge commits, to be followed one merge after the other on the tree `tip`. */
export function adviceOn(db: CommitReader, tip: Oid, merges: readonly Merge[]): string[][] {
  const draft = draftOf(db, tip);
  return merges.map((merge) => advise(db, draft, merge));
}

/** Advice of one kind: what is said of each path. */
class Advice {
  readonly #kinds = new Map<string, string[]>();

  add(why: string, advice: string): void {
    const known = this.#kinds.get(why);
    if (known) known.push(advice);
    else this.#kinds.set(why, [advice]);
  }

  lines(unseen: number): string[] {
    const lines: string[] = [];
    for (const [why, all] of this.#kinds) {
      lines.push(...all.slice(0, ADVISED).map((one) => `${why}: ${one}`));
      if (all.length > ADVISED) lines.push(more(all.length - ADVISED));
    }
    if (unseen > 0) lines.push(more(unseen));
    return lines;
  }
}

/** Of very many paths the first ones are advised on. */
const more = (n: number): string => `… and ${n} more like it: --json has all paths, as \`files\`.`;

function advise(db: CommitReader, draft: Draft, merge: Merge): string[] {
  const advice = new Advice();
  const steps = stepsOf(db, draft, merge);
  const back = merge.losses.filter(({ loss }) => loss.kind === "back");
  const { moves, twins } = renamesBack(draft, back.map(({ judged }) => judged));
  for (const { from, to, parent } of moves) {
    advice.add(
      `Parent ${steps.number(parent)} renamed it, and what is in it stands under the old name`,
      moveFile(from, to, draft.hasDirectory),
    );
    for (const path of draft.at(from).mode === 0o40000 ? draft.below(from) : [from]) {
      draft.put(to + path.slice(from.length), draft.at(path));
      draft.put(path, { mode: 0, oid: "" });
    }
  }
  const others = merge.losses.filter(({ loss }) => loss.kind !== "markers");
  for (const { judged, loss } of others.slice(0, JUDGED)) {
    const now = steps.judge(judged, loss);
    if (now === null) continue;
    const twin = twins.get(loss.path);
    const [why, what] = now.kind === "back"
      ? steps.remove(judged, now, twin)
      : steps.restore(judged, now);
    advice.add(why, what);
  }
  return advice.lines(Math.max(0, others.length - JUDGED));
}

type Said = [why: string, advice: string];

interface Steps {
  number(parent: 0 | 1 | 2): number;
  /** What of a loss stands in the draft. */
  judge(judged: JudgedLoss, known: Loss): Loss | null;
  remove(judged: JudgedLoss, loss: Loss, twin: string | undefined): Said;
  restore(judged: JudgedLoss, loss: Loss): Said;
}

function stepsOf(db: CommitReader, draft: Draft, merge: Merge): Steps {
  const at = merge.oid.slice(0, 12);
  const start = draft.tree;
  const lookup = treePaths(db);
  const isOctopus = merge.sides.length > 2;
  const trees = merge.sides.map(({ oid }) => commitTree(db, oid));
  const number = (parent: 0 | 1 | 2): number => parent < 2 ? parent : merge.sides.length;

  const judgeAgain = (judged: JudgedLoss): Loss | null => {
    draft.copyTo(judged.scene.db);
    return judged.again(draft.tree);
  };

  interface Holder {
    readonly commit: string;
    readonly n: number;
    readonly name: string;
  }
  /** The parent that has a version, and the name it has there; of an octopus any of them. */
  const holderOf = ({ scene }: JudgedLoss, side: 0 | 1 | 2, version: Version): Holder | null => {
    const asked = side !== 0 && !(isOctopus && side === 1)
      ? [number(side)]
      : merge.sides.map((_, i) => i + 1);
    for (const n of asked) {
      if (sameVersion(lookup.at(trees[n - 1]!, scene.path), version)) {
        return { commit: `${at}^${n}`, n, name: scene.path };
      }
    }
    for (const n of asked) {
      const name = nearest(
        scene.path,
        treePaths(scene.db).differences(scene.merged.baseTree, trees[n - 1]!)
          .filter(({ right }) => sameVersion(right, version)).map(({ path }) => path),
      );
      if (name !== undefined) return { commit: `${at}^${n}`, n, name };
    }
    return null;
  };
  const bring = ({ commit, name }: Holder, path: string, version: Version): string =>
    bringFile(commit, name, path, version, draft.hasDirectory);

  /** To edit what stands there, so that a side's change, or whatever is missing, is in it. */
  const edit = (judged: JudgedLoss, loss: Loss): string => {
    const { scene } = judged;
    const where = shellPath(loss.where ?? scene.path);
    const side = loss.parent || scene.side;
    const version = side === 1 ? scene.ours : scene.theirs;
    const holder = side === 0 ? holderOfLines(judged, loss) : holderOf(judged, side, version);
    if (!holder) {
      const blob = side === 0 ? "" : `; git show ${version.oid.slice(0, 12)} has it`;
      return `edit ${where} so that what is missing, as quoted above, stands there too${blob}.`;
    }
    const shown = `git show ${inCommit(holder.commit, holder.name)}`;
    if (side === 0) {
      return `edit ${where} so that what is missing stands there too; ${shown} has it.`;
    }
    const from = scene.merged.bases.length === 1 ? scene.merged.bases[0]!.slice(0, 12) : null;
    const old = scene.base.mode === 0 ? null : baseName(judged);
    const diff = from === null || old === null || isOctopus
      ? ""
      : ` (git diff ${from} ${holder.commit} -- ${
        [...new Set([old, holder.name])].map(pathspec).join(" ")
      })`;
    return `edit ${where} so that all that parent ${holder.n} changed in it${diff} ` +
      `is changed there too; ${shown} has it.`;
  };
  /** The base's name of the file. */
  const baseName = ({ scene }: JudgedLoss): string | null => {
    const paths = treePaths(scene.db);
    const isIt = (path: string): boolean =>
      sameVersion(paths.at(scene.merged.baseTree, path), scene.base);
    if (isIt(scene.path)) return scene.path;
    return nearest(
      scene.path,
      scene.trees.flatMap((tree) => paths.differences(scene.merged.baseTree, tree))
        .map(({ path }) => path).filter(isIt),
    ) ?? null;
  };
  /** A parent that has the lines which nobody took out. */
  const holderOfLines = ({ scene }: JudgedLoss, { text }: Loss): Holder | null => {
    for (const [i, tree] of trees.entries()) {
      const version = lookup.at(tree, scene.path);
      const data = version.mode === 0 ? null : textOf(db, version);
      if (
        data !== null && text.length > 0 && text.every((line) => Buffer.from(data).includes(line))
      ) {
        return { commit: `${at}^${i + 1}`, n: i + 1, name: scene.path };
      }
    }
    return null;
  };

  /** A side's version, or what keeps the one that stands there: somebody's own work. */
  const either = (
    judged: JudgedLoss,
    holder: Holder | null,
    version: Version,
    where: string,
  ): Said => {
    const keep = `${dropFlag(judged.path)} keeps what stands there now`;
    if (!holder) return ["What stands there is new", `${keep}.`];
    return [
      "What stands there is new",
      `${keep}, ${bring(holder, where, version)} puts that of parent ${holder.n} in its place.`,
    ];
  };

  const restore = (judged: JudgedLoss, first: Loss): Said => {
    const { scene } = judged;
    const commands: string[] = [];
    let why = "";
    let loss = first;
    const said = ([reason, what]: Said): Said =>
      commands.length === 0 ? [reason, what] : [why, `${commands.join(" && ")}; then ${what}`];
    for (let round = 0; round < 4; round++) {
      const before = draft.tree;
      const step = next(judged, loss);
      if ("said" in step) return said(step.said);
      draft.put(step.path, step.version);
      const left = judgeAgain(judged);
      const isUseless = left !== null && !step.isPart && left.kind === loss.kind &&
        left.parent === loss.parent && left.what === loss.what;
      if (isUseless) {
        draft.reset(before);
        return said(["It was changed since", edit(judged, loss)]);
      }
      if (why === "") why = step.why;
      commands.push(step.command);
      if (step.isEither) return [why, step.command];
      if (left === null) return [why, commands.join(" && ")];
      if (left.kind === "back" || left.kind === "markers") break;
      loss = left;
    }
    return [why, commands.join(" && ")];
  };

  type Step = { readonly said: Said } | {
    readonly why: string;
    readonly command: string;
    readonly path: string;
    readonly version: Version;
    /** More has to follow. */
    readonly isPart?: boolean;
    /** The advice has two answers, of which this is one. */
    readonly isEither?: boolean;
  };

  const next = (judged: JudgedLoss, loss: Loss): Step => {
    const { scene } = judged;
    const where = loss.where ?? scene.path;
    const now = draft.at(where);
    const side = loss.parent || scene.side;
    const [version, other] = side === 0
      ? [scene.expected, scene.expected]
      : side === 1
      ? [scene.ours, scene.theirs]
      : [scene.theirs, scene.ours];
    const said = (why: string, what = edit(judged, loss)): Step => ({ said: [why, what] });
    const isAlone = side === 0 || sameVersion(other, scene.base) || sameVersion(other, version) ||
      other.mode === 0;

    if (loss.kind === "mode" && isRegular(now.mode)) {
      const mode = loss.parent !== 0 && version.mode !== scene.base.mode
        ? version.mode
        : scene.expected.mode;
      const command = isRegular(mode) ? changeMode(where, mode) : null;
      if (command !== null && mode !== now.mode) {
        return { why: "Its mode", command, path: where, version: { mode, oid: now.oid } };
      }
    }
    if (side === 0 && loss.kind === "text") return said("Merging gives more");

    const holder = version.mode === 0 || side === 0 && scene.conflicted
      ? null
      : holderOf(judged, side, version);
    if (now.mode === 0o40000 || !holder) {
      return said(`Parent ${number(side)} changed it`);
    }
    const whole = { command: bring(holder, where, version), path: where, version };
    const taken = holder.name !== where
      ? `Parent ${holder.n} has it as ${shellPath(holder.name)}`
      : side === 0
      ? "Merging has it as it was"
      : isAlone
      ? `Only parent ${holder.n} changed it, take it whole`
      : `Parent ${holder.n} has all of it`;
    if (now.mode === 0) {
      if (scene.base.mode !== 0 && other.mode === 0) {
        return {
          ...whole,
          why: `Parent ${number(side)} changed it, and parent ${
            number(side === 1 ? 2 : 1)
          } deleted it`,
          command: `${whole.command} keeps it changed, ${dropFlag(scene.path)} keeps it deleted.`,
          isEither: true,
        };
      }
      if (isAlone) return { ...whole, why: taken };
      const from = holderOf(judged, side === 1 ? 2 : 1, other);
      if (!from) return said("Both sides changed it");
      return {
        why: "Both sides changed it",
        command: bring(from, where, other),
        path: where,
        version: other,
        isPart: true,
      };
    }
    const texts = isRegular(now.mode) && isRegular(version.mode)
      ? readTexts(scene.db, [scene.base, version])
      : null;
    draft.copyTo(scene.db);
    const current = texts && textOf(scene.db, now);
    if (!texts || current === null) {
      return sameVersion(now, scene.base) && side !== 0
        ? { ...whole, why: taken }
        : { said: either(judged, holder, version, where) };
    }
    if (side === 0) return { said: either(judged, holder, version, where) };
    const merged = mergeTexts(texts[0]!, current, texts[1]!, {
      labels: { ours: "", base: "", theirs: "" },
    });
    const isOwn = scene.base.mode === 0 || merged.conflicts > 0;
    if (!isOwn && Buffer.compare(merged.data, texts[1]!) === 0) return { ...whole, why: taken };
    const reason = isAlone ? "It was changed since" : "Both sides changed it";
    if (isOwn || Buffer.compare(merged.data, current) === 0) return said(reason);
    const paths = treePaths(scene.db);
    const { bases, baseTree } = scene.merged;
    const isPatch = where === scene.path && holder.name === where && bases.length === 1 &&
      !isOctopus && sameVersion(paths.at(baseTree, where), scene.base) &&
      (now.mode === scene.base.mode || now.mode === version.mode);
    if (!isPatch) return said(reason);
    return {
      why: reason,
      command: applyChange(bases[0]!.slice(0, 12), holder.commit, where),
      path: where,
      version: { mode: version.mode, oid: draft.write(merged.data) },
    };
  };

  const remove = (judged: JudgedLoss, loss: Loss, twin: string | undefined): Said => {
    const { scene, path } = judged;
    const n = number(loss.parent);
    const now = draft.at(path);
    const command = removeFile(path);
    const gone = (): void => draft.put(path, { mode: 0, oid: "" });
    if (twin !== undefined && draft.at(twin).mode !== 0) {
      draft.copyTo(scene.db);
      const data = readTexts(scene.db, [scene.base, now, draft.at(twin)]);
      const merged = data && mergeTexts(data[0]!, data[1]!, data[2]!, {
        labels: { ours: "", base: "", theirs: "" },
      });
      gone();
      const why = `Parent ${n} renamed it to ${shellPath(twin)}, which is there too`;
      return merged && merged.conflicts === 0 && Buffer.compare(merged.data, data[2]!) === 0 ||
          now.oid === scene.base.oid
        ? [why, command]
        : [
          why,
          `edit ${shellPath(twin)} so that what was changed in ${shellPath(path)} ` +
          `(git diff ${scene.base.oid.slice(0, 12)} HEAD:${
            shellPath(path)
          }) is changed there too, ` +
          `then ${command}`,
        ];
    }
    if (now.oid === scene.base.oid) {
      gone();
      return [`Parent ${n} deleted it`, command];
    }
    return [
      `Parent ${n} deleted it, and it was changed since`,
      `${command} deletes it with what was changed, ${dropFlag(path)} keeps it.`,
    ];
  };

  return {
    number,
    judge: (judged, known) => draft.tree === start ? known : judgeAgain(judged),
    remove,
    restore,
  };
}

/** Of some paths the one that is most like another, from the end on. */
function nearest(path: string, others: readonly string[]): string | undefined {
  const score = (other: string): number => {
    let n = 0;
    while (n < other.length && other[other.length - 1 - n] === path[path.length - 1 - n]) n++;
    return n;
  };
  return [...others].sort((a, b) => score(b) - score(a))[0];
}
