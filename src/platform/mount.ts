/** Which files a path leads to depends on who follows it: another container may have others at the same path. */
import { readFileSync, statSync } from "node:fs";
import { hash } from "./hash.ts";

/**
 * What tells where a path leads to, or would lead to, from where others of its spelling lead: the mount it lies in, by
 * its root, its source and its options (proc_pid_mountinfo(5)), without numbers that change at each boot. Containers
 * have roots of their own, but a volume is the same in all. Undefined where the system doesn't say.
 */
export function mountView(path: string): string | undefined {
  let mounts: string;
  try {
    mounts = readFileSync("/proc/self/mountinfo", "utf8");
  } catch {
    return undefined;
  }
  let found: { point: string; view: string } | null = null;
  for (const line of mounts.split("\n")) {
    const [mount, rest] = line.split(" - ");
    const [, , , root, point] = mount!.split(" ").map(unescaped);
    if (rest === undefined || point === undefined) continue;
    const under = point === "/" || path === point || path.startsWith(`${point}/`);
    // The last of those at one place hides the others.
    if (!under || (found !== null && point.length < found.point.length)) continue;
    // Options of the mount itself (ro, noatime) change nothing about what is there; an overlay's say what it is made of.
    const [type, source, options] = rest.split(" ");
    const made = type === "overlay" ? options : "";
    found = { point, view: [root, point, type, source, made].join("\n") };
  }
  return found === null ? undefined : hash("sha1", found.view);
}

/** Blanks and the like are written as octal numbers. */
const unescaped = (text: string): string =>
  text.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(parseInt(octal, 8)));

/** What tells a directory from others, by whatever path it is reached; undefined where there is none. */
export function directoryId(path: string): string | undefined {
  try {
    const { dev, ino } = statSync(path, { bigint: true });
    return `${dev}:${ino}`;
  } catch {
    return undefined;
  }
}
