/**
 * Whether a file can be a program of this machine, by its first bytes. A shell that runs a script whose interpreter
 * the system won't execute takes the script for one of its own: that has to be known before.
 */
import { closeSync, fstatSync, openSync, readdirSync, readSync } from "node:fs";

/** What a file is to the system's loader: `unknown` where it can't be read, or others may take it. */
export type Kind = "empty" | "script" | "program" | "foreign" | "text" | "unknown";

const ELF = "\x7fELF";
/** ELF's numbers of machines whose programs run on each of ours. */
const MACHINES: Readonly<Record<string, readonly number[]>> = {
  x64: [62, 3],
  arm64: [183, 40],
};

/** `foreign`: of another machine, or damaged; `text`: anything else that the system itself doesn't execute. */
export function kindOf(file: string): Kind {
  if (process.platform !== "linux" && process.platform !== "android") return "unknown";
  const machines = MACHINES[process.arch];
  try {
    const fd = openSync(file, "r");
    try {
      const head = new Uint8Array(64);
      const length = readSync(fd, head, 0, head.length, 0);
      if (length === 0) return "empty";
      const text = String.fromCharCode(...head.subarray(0, 4));
      if (text.startsWith("#!")) return "script";
      if (machines === undefined || takesOthers()) return "unknown";
      if (text !== ELF) return "text";
      return isWhole(head.subarray(0, length), fstatSync(fd).size, machines)
        ? "program"
        : "foreign";
    } finally {
      closeSync(fd);
    }
  } catch {
    return "unknown";
  }
}

/** The header is all there, of a machine that runs here, and its table of segments lies within the file. */
function isWhole(head: Uint8Array, size: number, machines: readonly number[]): boolean {
  const wide = head[4] === 2;
  if (head.length < (wide ? 64 : 52) || (!wide && head[4] !== 1) || head[5] !== 1) return false;
  const view = new DataView(head.buffer, head.byteOffset, head.length);
  const [type, machine] = [view.getUint16(16, true), view.getUint16(18, true)];
  if ((type !== 2 && type !== 3) || !machines.includes(machine)) return false;
  const from = wide ? Number(view.getBigUint64(32, true)) : view.getUint32(28, true);
  const [each, count] = [
    view.getUint16(wide ? 54 : 42, true),
    view.getUint16(wide ? 56 : 44, true),
  ];
  return count > 0 && from + each * count <= size;
}

/** Other kinds may be registered (emulators, virtual machines): what they take isn't known. */
function takesOthers(): boolean {
  try {
    return readdirSync("/proc/sys/fs/binfmt_misc").some((name) =>
      name !== "register" && name !== "status"
    );
  } catch {
    return false;
  }
}
