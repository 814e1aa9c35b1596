/** What is advised for a path of which a side's change, or all of it, is missing. */
import { Buffer } from "node:buffer";
import type { CommitReader } from "../../git/history.ts";
import { shellPath } from "../../git/path-quote.ts";
import { isDirectory, isRegular, sameVersion, type Version } from "../entry.ts";
import {
  applyChange,
  bringFile,
  changeMode,
  dropFlag,
  inCommit,
  inTop,
  mergeFile,
  takeMerged,
  topPathspec,
} from "./commands.ts";
import type { Draft } from "./draft.ts";
import { isAsGiven, isPlain, mergedInto } from "./fitting.ts";
import type { Holder, Holders } from "./holders.ts";
import type { Loss } from "./loss.ts";
import type { JudgedLoss, Scene } from "./merge.ts";
import type { Steps } from "../steps.ts";
import { treePaths } from "../tree-paths.ts";

/** Why something is advised, and what. */
export type Said = [why: string, advice: string];

export interface Scope {
  readonly db: CommitReader;
  readonly draft: Draft;
  /** What a command that overwrites a path begins with: it stops where somebody changed it since. */
  guard(path: string): string;
  readonly holders: Holders;
}

/** A command for a path, and what comes of it. */
interface Step {
  readonly why: string;
  readonly command: string;
  readonly path: string;
  readonly version: Version;
  /** More has to follow. */
  readonly isPart?: boolean;
  /** One of two answers. */
  readonly isEither?: boolean;
}

/** One path is mended in so many steps at most. */
const STEPS = 4;

export interface Menders {
  /** What of a loss stands in the draft. */
  judge(judged: JudgedLoss): Steps<Loss | null>;
  /** Advice, which the draft follows where it is a command. */
  restore(judged: JudgedLoss, loss: Loss): Steps<Said>;
}

export function menders({ db, draft, guard, holders }: Scope): Menders {
  const judge = function* (judged: JudgedLoss): Steps<Loss | null> {
    draft.copyTo(judged.scene.db);
    return yield* judged.again(draft.tree);
  };

  /** To edit what stands there, so that a side's change, or whatever is missing, is in it. */
  const edit = ({ scene }: JudgedLoss, loss: Loss): string => {
    const file = `edit ${shellPath(loss.where ?? scene.path)} so that`;
    const side = loss.parent || scene.side;
    if (side === 0) {
      const holder = holders.ofLines(scene, loss);
      const has = holder ? `; git show ${inCommit(holder.commit, holder.name)} has it` : "";
      return `${file} what is missing stands there too${has}.`;
    }
    const version = side === 1 ? scene.ours : scene.theirs;
    const holder = holders.of(scene, side, version);
    if (!holder) {
      const has = db.has(version.oid) ? `; git show ${version.oid.slice(0, 12)} has it` : "";
      return `${file} what is missing stands there too${has}.`;
    }
    const old = holders.oldName(scene);
    const diff = old === null || scene.merged.bases.length !== 1 || holders.isOctopus
      ? ""
      : ` (git diff ${short(scene)} ${holder.commit} -- ${
        [...new Set([old, holder.name])].map(topPathspec).join(" ")
      })`;
    return `${file} all that parent ${holder.n} changed in it${diff} is changed there too; ` +
      `git show ${inCommit(holder.commit, holder.name)} has it.`;
  };

  /** What stands there is somebody's own work: that, or a parent's version. */
  const either = function* (judged: JudgedLoss, holder: Holder, step: Step): Steps<Said> {
    const { scene } = judged;
    const drop = dropFlag(scene.path);
    const start = draft.tree;
    const isOther = [scene.ours, scene.theirs].some((side) =>
      sameVersion(side, draft.at(step.path))
    );
    draft.put(step.path, step.version);
    // Nothing but a declaration settles what one of the two has to lose.
    const isSettled = (yield* judge(judged)) === null;
    draft.reset(start);
    return [
      isOther
        ? "Both sides changed it, and there are no lines to be merged"
        : "What stands there is new",
      `${drop} keeps what stands there now, ${
        inTop(step.command)
      } puts that of parent ${holder.n} in its place` +
      (isSettled ? "." : `, with ${drop} too.`),
    ];
  };

  /** A step, or the last word on the path. */
  const next = function* (judged: JudgedLoss, loss: Loss): Steps<Step | { said: Said }> {
    const { scene } = judged;
    const path = loss.where ?? scene.path;
    const now = draft.at(path);
    const side = loss.parent || scene.side;
    const [version, other] = side === 0
      ? [scene.expected, scene.expected]
      : side === 1
      ? [scene.ours, scene.theirs]
      : [scene.theirs, scene.ours];
    const isDeleted = scene.base.mode !== 0 && other.mode === 0;
    const isAlone = isDeleted || other.mode === 0 || sameVersion(other, scene.base) ||
      sameVersion(other, version);
    const edited = (why: string): { said: Said } => ({ said: [why, edit(judged, loss)] });

    if (loss.kind === "mode" && isRegular(now.mode)) {
      const isSides = loss.parent !== 0 && version.mode !== scene.base.mode;
      const mode = isSides ? version.mode : scene.expected.mode;
      if (isRegular(mode) && mode !== now.mode) {
        const command = changeMode(path, mode);
        return { why: "Its mode", command, path, version: { mode, oid: now.oid } };
      }
    }
    if (side === 0 && loss.kind === "text") return edited("Merging gives more");
    const holder = version.mode === 0 ? null : holders.of(scene, side, version);
    if (!holder || isDirectory(now.mode)) {
      return edited(side === 0 ? "Merging gives more" : `${holders.label(side)} changed it`);
    }
    const bring = (from: Holder, what: Version): string =>
      guard(path) + bringFile(from.commit, from.name, path, what, draft.hasDirectory);
    const whole = {
      why: holder.name !== path
        ? `Parent ${holder.n} has it as ${shellPath(holder.name)}`
        : side === 0
        ? "Merging leaves it as it was"
        : isAlone
        ? `Only parent ${holder.n} changed it, take it whole`
        : `Parent ${holder.n} has all of it, take it whole`,
      command: bring(holder, version),
      path,
      version,
    };
    if (now.mode === 0) {
      if (isDeleted && side !== 0) {
        const [parent, deleting] = [holders.label(side), holders.label(side === 1 ? 2 : 1)];
        return {
          ...whole,
          why: `${parent} changed it, and ${
            deleting[0]!.toLowerCase() + deleting.slice(1)
          } deleted it`,
          command: `${inTop(whole.command)} keeps it changed, ${
            dropFlag(scene.path)
          } keeps it deleted.`,
          isEither: true,
        };
      }
      if (isAlone) return whole;
      const from = holders.of(scene, side === 1 ? 2 : 1, other);
      if (!from) return edited("Both sides changed it");
      const command = bring(from, other);
      return { why: "Both sides changed it", command, path, version: other, isPart: true };
    }
    draft.copyTo(scene.db);
    if (side !== 0 && sameVersion(now, scene.base)) return whole;
    const isText = [now, version].every((one) => isPlain(scene.db, one));
    if (side === 0 || !isText) return { said: yield* either(judged, holder, whole) };
    const reason = isAlone ? "It was changed since" : "Both sides changed it";
    const merged = scene.base.mode === 0
      ? null
      : mergedInto(scene.db, scene.base, now, version, "histogram");
    if (!merged || !isAsGiven(scene, merged, now)) return edited(reason);
    const has = (one: Version): boolean =>
      Buffer.compare(merged, scene.db.read(one.oid).data) === 0;
    if (has(version)) return whole;
    if (has(now)) return edited(reason);
    const inGit = mergedInto(scene.db, scene.base, now, version);
    if (!inGit) {
      const { expected } = scene;
      const isGiven = path === scene.path && !scene.conflicted && !holders.isOctopus &&
        isRegular(expected.mode) && has(expected);
      if (!isGiven) return edited(reason);
      const command = guard(path) + takeMerged(holders.merge, path);
      return { why: `${reason}, take what merging gives`, command, path, version: expected };
    }
    const isPatch = path === scene.path && holder.name === path && !holders.isOctopus &&
      scene.merged.bases.length === 1 &&
      sameVersion(treePaths(scene.db).at(scene.merged.baseTree, path), scene.base);
    if (isPatch && (now.mode === scene.base.mode || now.mode === version.mode)) {
      const command = applyChange(short(scene), holder.commit, path);
      return {
        why: reason,
        command,
        path,
        version: { mode: version.mode, oid: draft.write(merged) },
      };
    }
    // The base of a criss-cross is nowhere but in the merge made here.
    if (!db.has(scene.base.oid)) return edited(reason);
    const command = mergeFile(path, scene.base.oid, inCommit(holder.commit, holder.name));
    return { why: reason, command, path, version: { mode: now.mode, oid: draft.write(merged) } };
  };

  return {
    judge,
    *restore(judged, first) {
      const commands: string[] = [];
      let why = "";
      let loss = first;
      const said = ([reason, what]: Said): Said =>
        commands.length === 0
          ? [reason, what]
          : [why, `${inTop(commands.join(" && "))}; then ${what}`];
      while (commands.length < STEPS) {
        const start = draft.tree;
        const step = yield* next(judged, loss);
        if ("said" in step) return said(step.said);
        draft.put(step.path, step.version);
        if (step.isEither && commands.length === 0) return [step.why, step.command];
        const left = yield* judge(judged);
        if (left && !step.isPart && left.parent === loss.parent && left.what === loss.what) {
          draft.reset(start);
          return said(["It was changed since", edit(judged, loss)]);
        }
        why ||= step.why;
        commands.push(step.command);
        if (left === null || left.kind === "back" || left.kind === "markers") break;
        loss = left;
      }
      return [why, inTop(commands.join(" && "))];
    },
  };
}

/** The commit where the sides part. */
const short = ({ merged }: Scene): string => merged.bases[0]!.slice(0, 12);
