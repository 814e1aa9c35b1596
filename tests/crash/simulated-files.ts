/**
 * A file system in memory that knows what a power cut would leave.
 *
 * A file has its data as written and its data as last fsynced; a directory has its entries as they are,
 * its entries as last fsynced, and the changes in between, each atomic (a rename within a directory is
 * one change). After a cut, unsynced data and changes are
 *
 * - `kept`: all there (the process was killed, nothing else);
 * - `dropped`: none there;
 * - `torn`: any subset of a directory's changes; file data old, new, a prefix, or zeros in part.
 *
 * Nothing orders one file's or directory's loss against another's: only fsync does.
 */
import { Buffer } from "node:buffer";
import { posix } from "node:path";
import type { FileKind, FileStat, FileSystem } from "../../src/platform/files.ts";

export type CutMode = "kept" | "dropped" | "torn";

/** One change or sync that went through the interface. */
export interface Step {
  readonly site: string;
  readonly path: string;
}

/** Thrown by the call that the crash strikes, and by every call after it. */
export class SimulatedCrash extends Error {}

interface Inode {
  readonly ino: number;
  readonly kind: FileKind;
  mode: number;
  /** How many current entries lead to it. */
  links: number;
  data: Uint8Array;
  syncedData: Uint8Array;
  entries: Map<string, number>;
  syncedEntries: Map<string, number>;
  /** Changes since the last sync; null means the name went away. */
  changes: [name: string, ino: number | null][][];
}

interface Disk {
  nextIno: number;
  inodes: Map<number, Inode>;
}

export interface SimulatedFiles {
  readonly files: FileSystem;
  readonly steps: Step[];
  /** True once the crash has struck. */
  readonly crashed: boolean;
  /** Strikes in place of step `index` (0-based), which then doesn't happen. */
  crashBefore(index: number): void;
  /** Makes step `index` fail with an errno, once. `partial` writes half of a write first. */
  failAt(index: number, errno: string): void;
  /** The same disk, with the same unsynced data, for another process. */
  copy(): SimulatedFiles;
  /** The disk as found after the cut. */
  afterCut(mode: CutMode, random?: () => number): SimulatedFiles;
  /** Every path, for comparing and printing. */
  tree(): string[];
  readText(path: string): string | null;
}

const ROOT_INO = 1;

export function simulatedFiles(): SimulatedFiles {
  const root = makeInode(ROOT_INO, "directory", 0o755);
  return mount({ nextIno: 2, inodes: new Map([[ROOT_INO, root]]) });
}

function makeInode(ino: number, kind: FileKind, mode: number): Inode {
  return {
    ino,
    kind,
    mode,
    links: 0,
    data: new Uint8Array(),
    syncedData: new Uint8Array(),
    entries: new Map(),
    syncedEntries: new Map(),
    changes: [],
  };
}

function mount(disk: Disk): SimulatedFiles {
  const steps: Step[] = [];
  const open = new Map<number, Inode>();
  let nextFd = 100;
  let crashIndex = -1;
  let crashed = false;
  const failures = new Map<number, string>();

  const alive = () => {
    if (crashed) throw new SimulatedCrash("this process has been killed");
  };
  const step = (site: string, path: string) => {
    alive();
    if (steps.length === crashIndex) {
      crashed = true;
      throw new SimulatedCrash(`killed before ${site} ${path}`);
    }
    const failure = failures.get(steps.length);
    steps.push({ site, path });
    if (failure !== undefined) throw errno(failure, site, path);
  };
  const get = (ino: number) => disk.inodes.get(ino)!;
  const find = (path: string): Inode | null => {
    let inode = get(ROOT_INO);
    for (const name of path.split("/").filter((part) => part !== "")) {
      if (inode.kind !== "directory") return null;
      const ino = inode.entries.get(name);
      if (ino === undefined) return null;
      inode = get(ino);
    }
    return inode;
  };
  const require = (path: string): Inode => {
    const inode = find(path);
    if (inode === null) throw errno("ENOENT", "open", path);
    return inode;
  };
  const parentOf = (path: string): [Inode, string] => {
    const parent = require(posix.dirname(path));
    if (parent.kind !== "directory") throw errno("ENOTDIR", "open", path);
    return [parent, posix.basename(path)];
  };
  const change = (directory: Inode, assignments: [string, number | null][]) => {
    assign(disk, directory.entries, assignments);
    directory.changes.push(assignments);
  };
  const toStat = (inode: Inode): FileStat => ({
    dev: 1n,
    ino: BigInt(inode.ino),
    kind: inode.kind,
    mode: inode.mode,
    links: inode.links,
    uid: 1000,
    size: inode.data.length,
    // Every change gives a file other data: that is time enough.
    ctimeNs: BigInt(inode.data.length),
    mtimeNs: BigInt(inode.data.length),
  });
  const add = (path: string, kind: FileKind, mode: number): Inode => {
    const [parent, name] = parentOf(path);
    if (parent.entries.has(name)) throw errno("EEXIST", "create", path);
    const inode = makeInode(disk.nextIno++, kind, mode);
    disk.inodes.set(inode.ino, inode);
    change(parent, [[name, inode.ino]]);
    return inode;
  };
  const descriptor = (fd: number): Inode => {
    alive();
    const inode = open.get(fd);
    if (inode === undefined) throw errno("EBADF", "fd", String(fd));
    return inode;
  };
  const opened = (inode: Inode): number => {
    open.set(nextFd, inode);
    return nextFd++;
  };

  const files: FileSystem = {
    hasModes: true,
    uid: 1000,
    lstat(path) {
      alive();
      const inode = find(path);
      return inode === null ? null : toStat(inode);
    },
    fstat: (fd) => toStat(descriptor(fd)),
    openRead(path) {
      alive();
      return opened(require(path));
    },
    readAll: (fd, _size, limit) => descriptor(fd).data.slice(0, limit + 1),
    readdir(path) {
      alive();
      return [...require(path).entries.keys()];
    },
    close(fd) {
      if (!crashed && !open.delete(fd)) throw errno("EBADF", "close", String(fd));
    },
    create(site, path, mode) {
      step(site, path);
      return opened(add(path, "file", mode));
    },
    write(site, fd, content) {
      const inode = descriptor(fd);
      const bytes = content instanceof Uint8Array
        ? content
        : new Uint8Array(Buffer.concat(content));
      const failure = failures.get(steps.length);
      // A full disk or a broken one takes part of the data first.
      if (failure !== undefined) inode.data = bytes.slice(0, bytes.length >> 1);
      step(site, `inode ${inode.ino}`);
      inode.data = bytes.slice();
    },
    mkdir(site, path, mode) {
      step(site, path);
      add(path, "directory", mode);
    },
    chmod(site, path, mode) {
      step(site, path);
      require(path).mode = mode;
    },
    rename(site, from, to) {
      step(site, from);
      const [source, fromName] = parentOf(from);
      const [target, toName] = parentOf(to);
      const ino = require(from).ino;
      if (source === target) change(source, [[fromName, null], [toName, ino]]);
      else {
        change(target, [[toName, ino]]);
        change(source, [[fromName, null]]);
      }
    },
    unlink(site, path) {
      step(site, path);
      const [parent, name] = parentOf(path);
      if (require(path).kind === "directory") throw errno("EISDIR", site, path);
      change(parent, [[name, null]]);
    },
    rmdir(site, path) {
      step(site, path);
      const [parent, name] = parentOf(path);
      const inode = require(path);
      if (inode.kind !== "directory") throw errno("ENOTDIR", site, path);
      if (inode.entries.size > 0) throw errno("ENOTEMPTY", site, path);
      change(parent, [[name, null]]);
    },
    sync(site, fd) {
      const inode = descriptor(fd);
      step(site, `inode ${inode.ino}`);
      inode.syncedData = inode.data;
    },
    syncDirectory(site, path) {
      step(site, path);
      const inode = require(path);
      inode.syncedEntries = new Map(inode.entries);
      inode.changes = [];
    },
    // Nobody else's process sees this disk.
    flockable: () => null,
    flock: () => null,
    createLater: async (site, path, mode) => files.create(site, path, mode),
    writeEarly(site, fd, _path, bytes) {
      files.write(site, fd, bytes);
      return fd;
    },
    syncAll: async (requests) =>
      requests.map((request) => {
        try {
          if ("fd" in request) files.sync(request.site, request.fd);
          else files.syncDirectory(request.site, request.directory);
          return null;
        } catch (error) {
          return error;
        }
      }),
    hold(path) {
      alive();
      const inode = find(path);
      return inode === null ? null : opened(inode);
    },
    letGo: async (held) => held.forEach(files.close),
  };

  return {
    files,
    steps,
    get crashed() {
      return crashed;
    },
    crashBefore(index) {
      crashIndex = index;
    },
    failAt(index, code) {
      failures.set(index, code);
    },
    copy() {
      const inodes = new Map<number, Inode>();
      for (const inode of disk.inodes.values()) {
        inodes.set(inode.ino, {
          ...inode,
          entries: new Map(inode.entries),
          syncedEntries: new Map(inode.syncedEntries),
          changes: [...inode.changes],
        });
      }
      return mount({ nextIno: disk.nextIno, inodes });
    },
    afterCut: (mode, random = Math.random) => mount(cut(disk, mode, random)),
    tree() {
      const paths: string[] = [];
      const walk = (inode: Inode, path: string) => {
        for (const [name, ino] of inode.entries) {
          paths.push(`${path}/${name}`);
          walk(get(ino), `${path}/${name}`);
        }
      };
      walk(get(ROOT_INO), "");
      return paths.sort();
    },
    readText(path) {
      const inode = find(path);
      return inode === null ? null : new TextDecoder().decode(inode.data);
    },
  };
}

function assign(
  disk: Disk,
  entries: Map<string, number>,
  assignments: readonly [string, number | null][],
): void {
  for (const [name, ino] of assignments) {
    const old = entries.get(name);
    if (old !== undefined) disk.inodes.get(old)!.links--;
    if (ino === null) entries.delete(name);
    else {
      entries.set(name, ino);
      disk.inodes.get(ino)!.links++;
    }
  }
}

/** What is on the disk after the cut; everything on it then counts as synced. */
function cut(disk: Disk, mode: CutMode, random: () => number): Disk {
  const all = new Map<number, Inode>();
  for (const inode of disk.inodes.values()) {
    const entries = survivingEntries(inode, mode, random);
    const data = survivingData(inode, mode, random);
    all.set(inode.ino, {
      ...makeInode(inode.ino, inode.kind, inode.mode),
      entries,
      syncedEntries: new Map(entries),
      data,
      syncedData: data,
    });
  }
  const inodes = new Map<number, Inode>();
  const reach = (ino: number) => {
    const inode = all.get(ino)!;
    inode.links++;
    if (inodes.has(ino)) return;
    inodes.set(ino, inode);
    inode.entries.forEach(reach);
  };
  reach(ROOT_INO);
  return { nextIno: disk.nextIno, inodes };
}

function survivingEntries(inode: Inode, mode: CutMode, random: () => number): Map<string, number> {
  if (mode === "kept") return new Map(inode.entries);
  const entries = new Map(inode.syncedEntries);
  if (mode === "dropped") return entries;
  for (const assignments of inode.changes) {
    if (random() < 0.5) continue;
    for (const [name, ino] of assignments) {
      if (ino === null) entries.delete(name);
      else entries.set(name, ino);
    }
  }
  return entries;
}

function survivingData(inode: Inode, mode: CutMode, random: () => number): Uint8Array {
  if (mode === "kept" || inode.data === inode.syncedData) return inode.data;
  if (mode === "dropped") return inode.syncedData;
  const length = Math.floor(random() * (inode.data.length + 1));
  switch (Math.floor(random() * 4)) {
    case 0:
      return inode.syncedData;
    case 1:
      return inode.data;
    case 2:
      return inode.data.slice(0, length);
    default: {
      const zeroed = inode.data.slice();
      zeroed.fill(0, length);
      return zeroed;
    }
  }
}

export function errno(code: string, operation: string, path: string): Error {
  return Object.assign(new Error(`${code}: ${operation} '${path}'`), { code });
}

/** Small, seeded, good enough to pick what survives. */
export function seededRandom(seed: number): () => number {
  let state = (seed ^ 0x9e3779b9) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}
