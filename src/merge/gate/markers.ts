/** Conflict markers in sets of three, commented out and indented ones too, and in files of their own. */
import { Buffer } from "node:buffer";

/**
 * What may stand before a marker that somebody indented, quoted or commented out: signs (but `=`, as in headings), or
 * a word that begins a comment.
 */
const BEFORE =
  "(?:[ \\t!-/:;<>-@\\[-^`{-~]{0,16}?|[ \\t]{0,16}@?(?:[Rr][Ee][Mm]|dnl|DNL)[ \\t]{1,8})";
/** What may follow it: a name, or what closes the quotes or the comment. */
const AFTER = "(?:[ \\t].*|[!-/:;?@\\[-^`{-~]{1,8}>?)?";
/** The indents and comment signs before a marker of any size. */
const COMMON = "[ \\t#/*;%+>|!-]{0,16}?";

/** Markers may have any size: the candidate's attributes set it, or those of the clone it was merged in. */
const SMALLEST = 4;

/**
 * Sets of markers of one size, opened, parted and closed in this order and all after the same indent or comment sign,
 * of which `sources` don't have the opening and the closing line: `[first, last]`, 1-based lines. Of `size`, and of any
 * from {@link SMALLEST} on if they name the sides, as git's do: a row of arrows is none.
 */
export function newMarkerSets(
  result: Uint8Array,
  sources: () => readonly Uint8Array[],
  size: number,
): [first: number, last: number][] {
  const text = plain(result);
  const sizes = new Set([...text.matchAll(OPENING)].map(([run]) => run.length));
  if (size < SMALLEST && text.includes("<".repeat(size))) sizes.add(size);
  return [...sizes].flatMap((each) => newSetsOf(text, sources, each, each !== size));
}

const OPENING = new RegExp(`<{${SMALLEST},}`, "g");

function newSetsOf(
  text: string,
  sources: () => readonly Uint8Array[],
  size: number,
  named: boolean,
): [first: number, last: number][] {
  const signs = ["<", "=", ">", "\\|"].map((sign) => `${sign}{${size}}`).join("|");
  const marker = new RegExp(`^(${BEFORE})(${signs})(?![<=>|])${AFTER}$`);
  const open = new Map<string, { line: number; text: string; parted: boolean }>();
  const sets: { first: number; last: number; opening: string; closing: string }[] = [];
  text.split("\n").forEach((ended, i) => {
    const line = ended.trimEnd();
    const [, before, sign] = marker.exec(line) ?? [];
    if (before === undefined || sign === undefined || before.endsWith(sign[0]!)) return;
    if (named && /[<>]/.test(sign) && !/[<>][ \t]+\S/.test(line)) return;
    const key = before.trimEnd();
    const begun = open.get(key);
    if (sign[0] === "<") open.set(key, { line: i + 1, text: line, parted: false });
    else if ((sign[0] === "=" || sign[0] === "|") && begun) begun.parted = true;
    else if (sign[0] === ">" && begun) {
      open.delete(key);
      if (!begun.parted) return;
      sets.push({ first: begun.line, last: i + 1, opening: begun.text, closing: line });
    }
  });
  if (sets.length === 0) return [];
  const known = new Set(sources().flatMap((source) => linesOf(source)));
  return sets.filter(({ opening, closing }) => !known.has(opening) || !known.has(closing))
    .map(({ first, last }) => [first, last]);
}

/** Whether one of the marker lines in the regions (`first-last`, 1-based) of `old` is a line of `now`. */
export function markersStand(
  old: Uint8Array,
  regions: readonly string[],
  now: Uint8Array,
): boolean {
  const before = linesOf(old);
  const markers = new Set<string>();
  const isMarker = new RegExp(`^(?:${COMMON}([<>|=])\\1{2}|${BEFORE}([<>|=])\\2{6})`);
  for (const region of regions) {
    const [first, last] = region.split("-").map(Number) as [number, number];
    for (const line of before.slice(first - 1, last)) if (isMarker.test(line)) markers.add(line);
  }
  return linesOf(now).some((line) => markers.has(line));
}

/** Lines of `result` that look like conflict markers and stand in none of `sources`: 1-based. */
export function newMarkers(
  result: Uint8Array,
  sources: readonly Uint8Array[],
  size: number,
  separators: boolean,
): number[] {
  const isMarker = (text: string): boolean => {
    const char = text[0]!;
    let n = 1;
    while (text[n] === char) n++;
    const rest = text.slice(n).replace(/\r$/, "");
    if (char === "=") return separators && n === size && rest === "";
    return n === size && (rest === "" || rest.startsWith(" "));
  };
  const markers = (data: Uint8Array): Map<number, string> => {
    const found = new Map<number, string>();
    const text = plain(data);
    if (!/^[<>|=]{3}/m.test(text)) return found;
    text.split("\n").forEach((line, i) => {
      if (/^[<>|=]/.test(line) && isMarker(line)) found.set(i + 1, line);
    });
    return found;
  };
  const found = markers(result);
  if (found.size === 0) return [];
  const known = new Set(sources.flatMap((source) => [...markers(source).values()]));
  return [...found].filter(([, line]) => !known.has(line)).map(([line]) => line);
}

const plain = (data: Uint8Array): string =>
  Buffer.from(data.buffer, data.byteOffset, data.length).toString("latin1");

const linesOf = (data: Uint8Array): string[] =>
  plain(data).split("\n").map((line) => line.trimEnd());
