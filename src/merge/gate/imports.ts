/**
 * Lines that bring a name into a file from elsewhere. A name can be brought in once: where both sides did, from
 * different places, either line is an answer.
 */
import { Buffer } from "node:buffer";
import { type Layout, slice } from "./layout.ts";
import type { Lines } from "../text/lines.ts";

const NAMES = String.raw`[\w$*]+(?:\s+as\s+[\w$]+)?`;
const LIST = String.raw`(?:type\s+)?${NAMES}(?:\s*,\s*(?:type\s+)?${NAMES})*\s*,?`;
const FORMS = [
  // from x import a, b as c
  new RegExp(String.raw`^\s*from\s+[\w.]+\s+import\s+\(?\s*(${LIST})\s*\)?\s*(?:#.*)?$`),
  // import a, { b as c } from "x"
  new RegExp(
    String
      .raw`^\s*import\s+(?:type\s+)?((?:${NAMES}\s*,\s*)?\{\s*${LIST}\s*\}|${NAMES})\s*from\s*["']`,
  ),
  // const { a, b } = require("x")
  /^\s*(?:const|let|var)\s+(\{[\w\s,$:]*\}|[\w$]+)\s*=\s*require\(/,
  // use a\b\C; use a::b::C as D; import a.b.C;
  /^\s*(?:pub\s+)?(?:use|import|using)\s+(?:static\s+)?[\w.:\\]*?(\w+(?:\s+as\s+\w+)?)\s*;\s*$/,
];

/** The names that a line brings in; none when it isn't such a line. */
export function importedNames(line: Uint8Array): string[] {
  if (line.length > 1000) return [];
  const text = Buffer.from(line.buffer, line.byteOffset, line.length).toString("latin1").trimEnd();
  for (const form of FORMS) {
    const names = form.exec(text)?.[1];
    if (names === undefined) continue;
    const all = names.split(/[{},]/).map((name) => name.trim().split(/\s+|:\s*/).at(-1)!)
      .filter((name) => name !== "");
    // Everything there is has no name.
    return all.includes("*") ? [] : all;
  }
  return [];
}

const imports = new WeakMap<Lines, ReadonlySet<string>>();

/** Whether a line brings in names that lines of the result bring in too, but for those that were there before. */
export function isImported(
  line: Uint8Array,
  result: Lines,
  isOld: (line: number) => boolean,
): boolean {
  const names = importedNames(line);
  if (names.length === 0) return false;
  let known = imports.get(result);
  if (!known) {
    known = new Set(
      Array.from(
        { length: result.count },
        (_, i) => isOld(i) ? [] : importedNames(slice(result, i, 1)),
      ).flat(),
    );
    imports.set(result, known);
  }
  return names.every((name) => known.has(name));
}

/** The same of a line of the side's. */
export const isNameImported = ({ side, result, keys, known }: Layout, line: number): boolean =>
  isImported(slice(side, line, 1), result, (i) => known.keys.base.has(keys.result[i]!));
