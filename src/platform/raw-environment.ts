/**
 * Variables whose bytes aren't UTF-8. The runtime reads them as text, with U+FFFD for what fits nowhere, and
 * would hand that on to the programs it starts. The kernel still has the bytes, and a shell can write them.
 */
import { Buffer } from "node:buffer";
import { readFileSync } from "node:fs";

const REPLACED = "\ufffd";
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * Shell text that gives the variables back their bytes, to be put in front of a command; "" in the ordinary
 * case, and where nothing tells (no /proc). `given`: those that are set anew, or taken away, are let be.
 */
export function restoreVariables(given: Readonly<Record<string, string | undefined>>): string {
  const odd = Object.entries(process.env).filter(([name, value]) =>
    value?.includes(REPLACED) && NAME.test(name) && !(name in given)
  );
  if (odd.length === 0) return "";
  let all: string;
  try {
    all = readFileSync("/proc/self/environ", "latin1"); // A character for each byte.
  } catch {
    return "";
  }
  const lines = new Map(
    all.split("\0").map((line) => {
      const end = line.indexOf("=");
      return [line.slice(0, end), line.slice(end + 1)] as const;
    }),
  );
  let script = "";
  for (const [name, value] of odd) {
    const bytes = lines.get(name);
    // One that was set since says what it says.
    if (bytes === undefined || Buffer.from(bytes, "latin1").toString("utf8") !== value) continue;
    const octal = bytes.replace(
      /[^A-Za-z0-9]/g,
      (char) => `\\${char.charCodeAt(0).toString(8).padStart(3, "0")}`,
    );
    // The x keeps newlines at the end.
    script += `${name}="$(printf '${octal}x')"; export ${name}="\${${name}%x}"; `;
  }
  return script;
}
