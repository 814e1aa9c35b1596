/**
 * A sign of life that the kernel keeps, for those who can't see our pid: processes in another container (pid
 * namespace) of the same kernel, on a volume that both have.
 *
 * The sign is a file that its owner keeps locked (`flock.ts`). Its mark, `id:device:inode`, goes into whatever
 * the owner leaves for others to find. Who finds a mark and then gets the lock of that very file has proved that
 * the owner ended, or gave up what the mark stands for:
 *
 *   make file ▶ lock it ▶ leave things that carry the mark ▶ take these away ▶ remove file ▶ unlock
 *
 * A stopped or frozen owner holds its lock; one that was killed loses it when its last thread is gone, and no
 * earlier. Commands that it started don't hold the lock, as the file isn't passed on to them; one that is just
 * being started may for a moment more.
 *
 * Proofs are taken on file systems of this kernel alone. Over a network, and through FUSE, 9p or virtiofs, the
 * same file may be two to the kernel, and a lock on one not hold for the other: there no sign is made, and none
 * believed. Device and inode tell the rest: an overlay over the directory, a copy of it.
 * A sign that is missing proves nothing.
 */
import fs from "node:fs";
import { randomBytes } from "./hash.ts";
import { createLocked, type LockedFile, lockShared } from "./flock.ts";
import type { Liveness } from "./host.ts";
import { kernelFileSystem } from "./this-kernel.ts";

export const LIFE_MARK = /^[0-9a-f]{16}:\d{1,20}:\d{1,20}$/;

/** This process's sign of life. */
export interface Life {
  readonly mark: string;
  /** All that was written down. */
  readonly noted: readonly string[];
  /** Writes lines down in the sign, for those who tidy up after this process. Never throws. */
  note(lines: readonly string[]): void;
  /** Nothing carries the mark any more: removes the sign. */
  end(): void;
  /** Something may carry the mark still, and this process gives it up: others may tidy up. Nothing after `end`. */
  abandon(): void;
}

const PREFIX = "agentq-life-";
const FILE = /^agentq-life-([0-9a-f]{16})$/;

/**
 * Makes a sign in `directory`.
 * @param share the permissions of the file, from those it was made with: whoever may be in need of the proof
 * must be able to read it
 * @returns null where no proof could be had of it, or it can't be made: then one goes on without
 */
export function showLife(directory: string, share: (mode: number) => number): Life | null {
  if (!isOfThisKernel(directory)) return null;
  for (let attempt = 0; attempt < 3; attempt++) {
    const id = randomBytes(8).toString("hex");
    const path = `${directory}/${PREFIX}${id}`;
    const file = createLocked(path);
    if (file === null) continue;
    try {
      file.share(share);
      // Gone where somebody who tidies up had it before it was locked.
      const stat = fs.lstatSync(path, { bigint: true });
      return lifeOf(path, `${id}:${stat.dev}:${stat.ino}`, file);
    } catch {
      file.close();
      remove(path);
    }
  }
  return null;
}

function lifeOf(path: string, mark: string, file: LockedFile): Life {
  let open = true;
  const close = () => {
    if (open) file.close();
    open = false;
  };
  const noted: string[] = [];
  return {
    mark,
    noted,
    note(lines) {
      noted.push(...lines);
      try {
        file.append(lines.map((line) => `${line}\n`).join(""));
      } catch {
        // A full disk. What isn't noted is found by whoever wants it himself.
      }
    },
    end() {
      if (open) remove(path);
      close();
    },
    abandon: close,
  };
}

/** What the sign with this mark in `directory` says. Only `gone` is a proof. */
export function askLife(directory: string, mark: string): Liveness {
  const [id, dev, ino] = mark.split(":");
  const path = `${directory}/${PREFIX}${id}`;
  try {
    const stat = fs.lstatSync(path, { bigint: true });
    if (!stat.isFile() || `${stat.dev}` !== dev || `${stat.ino}` !== ino) return "unknown";
    if (!isOfThisKernel(path)) return "unknown";
  } catch {
    return "unknown";
  }
  const locked = lockShared(path);
  if (locked === null) return "unknown";
  if (locked === "held") return "alive";
  locked.close();
  return "gone";
}

/** A sign whose owner is gone. Nobody can make it his own before `leave` is called, which must be. */
export interface EndedLife {
  readonly mark: string;
  /** What it noted, as far as it came. From outside: lines may be anything. */
  readonly notes: readonly string[];
  /** Removes the sign. Nothing that carries its mark can be judged afterwards. */
  forget(): void;
  leave(): void;
}

/** How many signs are looked at at a time: those of live processes, of whom there may be many, among them. */
const MAX_ASKED = 8;
const MAX_NOTES = 65_536;

/** Some of the signs in `directory` whose owners are gone. @throws what reading the directory throws */
export function endedLives(directory: string): EndedLife[] {
  const names = fs.readdirSync(directory).filter((name) => FILE.test(name));
  if (names.length === 0 || !isOfThisKernel(directory)) return [];
  const from = Math.floor(Math.random() * names.length);
  const some = [...names.slice(from), ...names.slice(0, from)].slice(0, MAX_ASKED);
  return some.flatMap((name) => {
    const ended = endedLife(`${directory}/${name}`, FILE.exec(name)![1]!);
    return ended === null ? [] : [ended];
  });
}

function endedLife(path: string, id: string): EndedLife | null {
  let locked: { close(): void } | null = null;
  try {
    const before = fs.lstatSync(path, { bigint: true });
    const asked = before.isFile() ? lockShared(path) : null;
    if (asked === null || asked === "held") return null;
    locked = asked;
    const { dev, ino, size } = fs.lstatSync(path, { bigint: true });
    // A line that isn't whole was being written when its writer ended.
    const notes = size > MAX_NOTES ? [] : fs.readFileSync(path, "utf8").split("\n").slice(0, -1);
    return {
      mark: `${id}:${dev}:${ino}`,
      notes,
      forget: () => remove(path),
      leave: () => asked.close(),
    };
  } catch {
    locked?.close();
    return null;
  }
}

function isOfThisKernel(path: string): boolean {
  return kernelFileSystem(path) !== null;
}

function remove(path: string): void {
  try {
    fs.unlinkSync(path);
  } catch {
    // Gone already, or it stays: whoever tidies up later removes it.
  }
}
