/** Users of this machine, from its list of them: not every runtime looks there. */
import { readFileSync } from "node:fs";

/** The name of the user with this id; null where the list has none. */
export function nameOfUser(uid: number): string | null {
  return find(([, , id]) => id === String(uid))?.[0] || null;
}

/** The home directory of the user of this name; null where the list has none. */
export function homeOfUser(name: string): string | null {
  return find(([user]) => user === name)?.[5] || null;
}

/** NAME:x:UID:GID:WORDS:HOME:SHELL */
function find(fits: (fields: readonly string[]) => boolean): readonly string[] | undefined {
  try {
    const lines = readFileSync("/etc/passwd", "utf8").split("\n");
    return lines.map((line) => line.split(":")).find((fields) =>
      fields.length >= 6 && fits(fields)
    );
  } catch {
    // No such list here.
    return undefined;
  }
}
