/** Paths as git prints them when they hold more than plain characters. */

const LETTERS = new Map([
  ["\x07", "a"],
  ["\b", "b"],
  ["\f", "f"],
  ["\n", "n"],
  ["\r", "r"],
  ["\t", "t"],
  ["\v", "v"],
  ["\\", "\\"],
  ['"', '"'],
]);

/**
 * A path (byte string) for a person or a log: as it is when printable ASCII, else between double
 * quotes with its other bytes escaped, so that nothing in it reaches a terminal.
 */
export function quotePath(path: string): string {
  if (/^[\x20\x21\x23-\x5b\x5d-\x7e]*$/.test(path)) return path;
  const inner = path.replace(/[\x00-\x1f"\\\x7f-\uffff]/g, (char) => {
    const letter = LETTERS.get(char);
    if (letter !== undefined) return "\\" + letter;
    return "\\" + char.charCodeAt(0).toString(8).padStart(3, "0");
  });
  return `"${inner}"`;
}
