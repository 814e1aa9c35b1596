/** What this machine and one directory's file system can do, found out by trying. */
import { constants } from "node:fs";
import {
  accessSync,
  chmodSync,
  closeSync,
  fsyncSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { errnoOf } from "./durable.ts";

/** One answer: true, or false with the errno or words that say why. */
export type Probe = { readonly able: true } | { readonly able: false; readonly why: string };

export interface DirectoryProbe {
  /** A file can be made in the directory; nothing else is tried when not. */
  readonly writable: Probe;
  readonly hardlinks: Probe;
  readonly directorySync: Probe;
  /** 0600 and 0700 stay as set. */
  readonly modes: Probe;
  /** A network file system's type, or null. */
  readonly network: string | null;
}

const ABLE: Probe = { able: true };
const unable = (error: unknown): Probe => ({
  able: false,
  why: errnoOf(error) ?? (error instanceof Error ? error.message : String(error)),
});

function attempt(work: () => void): Probe {
  try {
    work();
    return ABLE;
  } catch (error) {
    return unable(error);
  }
}

/** Tries what a state directory needs, in a temporary directory below `dir`, which is removed. */
export function probeDirectory(dir: string): DirectoryProbe {
  const untried: Probe = { able: false, why: "not tried: the directory can't be written" };
  const network = networkFileSystem(dir);
  let temp: string;
  try {
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    temp = mkdtempSync(join(dir, ".probe-"));
  } catch (error) {
    return {
      writable: unable(error),
      hardlinks: untried,
      directorySync: untried,
      modes: untried,
      network,
    };
  }
  try {
    const file = join(temp, "file");
    return {
      writable: attempt(() => writeFileSync(file, "x", { mode: 0o600 })),
      hardlinks: attempt(() => linkSync(file, join(temp, "link"))),
      directorySync: attempt(() => {
        const fd = openSync(temp, "r");
        try {
          fsyncSync(fd);
        } finally {
          closeSync(fd);
        }
      }),
      modes: attempt(() => {
        chmodSync(file, 0o600);
        const kept = lstatSync(file).mode & 0o777;
        if (kept !== 0o600) throw new Error(`a file of mode 600 has ${kept.toString(8)}`);
      }),
      network,
    };
  } finally {
    rmSync(temp, { recursive: true, force: true });
  }
}

const NETWORK_TYPES = /^(nfs\d?|cifs|smb\d?|smbfs|9p|afs|ceph|glusterfs|lustre|fuse\.sshfs|davfs)$/;

/**
 * The type of a network file system that `dir` (or its nearest existing parent) lies on. Linux only.
 * `mounts` is as /proc/self/mounts has it.
 */
export function networkFileSystem(dir: string, mounts = readMounts()): string | null {
  let best = { point: "", type: "" };
  for (const line of mounts.split("\n")) {
    const [, rawPoint, type] = line.split(" ");
    if (!rawPoint || !type) continue;
    const point = rawPoint.replace(
      /\\([0-7]{3})/g,
      (_, octal) => String.fromCharCode(parseInt(octal, 8)),
    );
    const inside = point === "/" || dir === point || dir.startsWith(`${point}/`);
    if (inside && point.length >= best.point.length) best = { point, type };
  }
  return NETWORK_TYPES.test(best.type) ? best.type : null;
}

function readMounts(): string {
  try {
    return readFileSync("/proc/self/mounts", "utf8");
  } catch {
    return "";
  }
}

/** The first file called `name` on PATH that can be run, or null. */
export function findProgram(name: string): string | null {
  for (const dir of (process.env.PATH ?? "").split(delimiter)) {
    if (dir === "") continue;
    const path = join(dir, name);
    try {
      accessSync(path, constants.X_OK);
      if (lstatSync(dirname(path)).isDirectory()) return path;
    } catch {
      // Not here; the next directory may have it.
    }
  }
  return null;
}

/** Which runtime this is, for people: `bun 1.4.5, linux x64`. */
export function runtimeName(): string {
  const versions = process.versions as Record<string, string | undefined>;
  const name = versions.bun
    ? `bun ${versions.bun}`
    : versions.deno
    ? `deno ${versions.deno}`
    : "node";
  return `${name}, ${process.platform} ${process.arch}`;
}
