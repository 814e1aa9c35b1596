/**
 * Glob matching as .gitignore, .gitattributes and sparse-checkout mean it, over byte strings.
 *
 * Patterns come from trees that strangers wrote, so a matcher that backtracks could be made to run for
 * years. This one compiles a pattern to a list of steps and follows all of them at once: the work is
 * bounded by pattern length × text length.
 *
 * A path is matched whole. `*` and `?` stop at a slash, `**` between slashes does not, and a
 * bracket expression never matches a slash. Without `pathname` a slash is a character like any other.
 */

export interface WildmatchOptions {
  /** Slashes are only matched by slashes and by `**` (default true). */
  pathname?: boolean;
  /** ASCII letters match whatever their case. */
  ignoreCase?: boolean;
}

/** One step: a literal byte, any byte, a set of bytes, or a star that may stand still. */
type Step =
  | { readonly kind: "byte"; readonly byte: number }
  | { readonly kind: "any" }
  | { readonly kind: "set"; readonly has: Uint8Array }
  /** Matches any run of bytes; only those that are no slash unless `slash`. */
  | { readonly kind: "star"; readonly slash: boolean }
  /** `**` + `/`: nothing at all, or any run that ends in a slash. */
  | { readonly kind: "directories" };

const SLASH = 0x2f;

/** A compiled pattern: call it with a byte string. */
export type Matcher = (text: string) => boolean;

/** Compiles `pattern`. A pattern that is malformed (open bracket, lone final backslash) matches nothing. */
export function compileWildmatch(pattern: string, options: WildmatchOptions = {}): Matcher {
  const pathname = options.pathname ?? true;
  const fold = options.ignoreCase ?? false;
  if (!/[*?[\\]/.test(pattern)) {
    return fold ? (text) => foldCase(text) === foldCase(pattern) : (text) => text === pattern;
  }
  const steps = parse(pattern, pathname, fold);
  if (steps === null) return () => false;
  return (text) => run(steps, fold ? foldCase(text) : text, pathname);
}

/** Lowercases ASCII letters only: the rest of a byte string is not text. */
export function foldCase(text: string): string {
  return text.replace(/[A-Z]+/g, (upper) => upper.toLowerCase());
}

function parse(pattern: string, pathname: boolean, fold: boolean): Step[] | null {
  const steps: Step[] = [];
  for (let i = 0; i < pattern.length;) {
    const char = pattern[i]!;
    if (char === "*") {
      let end = i + 1;
      while (pattern[end] === "*") end++;
      const bounded = (i === 0 || pattern[i - 1] === "/") &&
        (end === pattern.length || pattern[end] === "/" || pattern.startsWith("\\/", end));
      if (!pathname) steps.push({ kind: "star", slash: true });
      else if (end - i === 1 || !bounded) steps.push({ kind: "star", slash: false });
      else if (pattern[end] === "/") {
        steps.push({ kind: "directories" });
        end++;
      } else steps.push({ kind: "star", slash: true });
      i = end;
    } else if (char === "?") {
      steps.push({ kind: "any" });
      i++;
    } else if (char === "[") {
      const bracket = parseBracket(pattern, i + 1, fold);
      if (bracket === null) return null;
      if (pathname) bracket.has[SLASH] = 0;
      steps.push({ kind: "set", has: bracket.has });
      i = bracket.end;
    } else {
      const escaped = char === "\\";
      if (escaped) i++;
      if (i >= pattern.length) return null;
      // git folds plain bytes of the pattern but not escaped ones: `\A` then matches nothing.
      const byte = fold && !escaped ? foldCase(pattern[i]!) : pattern[i]!;
      steps.push({ kind: "byte", byte: byte.charCodeAt(0) });
      i++;
    }
  }
  return steps;
}

const CLASSES = new Map<string, (byte: number) => boolean>(Object.entries({
  alnum: (b) => isAlpha(b) || isDigit(b),
  alpha: isAlpha,
  blank: (b) => b === 0x20 || b === 0x09,
  cntrl: (b) => b < 0x20 || b === 0x7f,
  digit: isDigit,
  graph: (b) => b > 0x20 && b < 0x7f,
  lower: (b) => b >= 0x61 && b <= 0x7a,
  print: (b) => b >= 0x20 && b < 0x7f,
  punct: (b) => b > 0x20 && b < 0x7f && !isAlpha(b) && !isDigit(b),
  space: (b) => b === 0x20 || (b >= 0x09 && b <= 0x0d),
  upper: (b) => b >= 0x41 && b <= 0x5a,
  xdigit: (b) => isDigit(b) || (b >= 0x41 && b <= 0x46) || (b >= 0x61 && b <= 0x66),
} as Record<string, (byte: number) => boolean>));

function isAlpha(b: number): boolean {
  return (b >= 0x41 && b <= 0x5a) || (b >= 0x61 && b <= 0x7a);
}

function isDigit(b: number): boolean {
  return b >= 0x30 && b <= 0x39;
}

/** Reads a bracket expression whose `[` is just before `start`; null when it never closes. */
function parseBracket(
  pattern: string,
  start: number,
  fold: boolean,
): { has: Uint8Array; end: number } | null {
  const has = new Uint8Array(256);
  let i = start;
  const negated = pattern[i] === "!" || pattern[i] === "^";
  if (negated) i++;
  // The byte a following "-" would start a range from; 0 right after a range or a class.
  let previous = 0;
  for (let first = true; first || pattern[i] !== "]"; first = false) {
    if (i >= pattern.length) return null;
    let byte = pattern.charCodeAt(i);
    if (pattern[i] === "\\") {
      if (++i >= pattern.length) return null;
      byte = pattern.charCodeAt(i);
      has[byte] = 1;
    } else if (
      pattern[i] === "-" && previous !== 0 && i + 1 < pattern.length && pattern[i + 1] !== "]"
    ) {
      i++;
      if (pattern[i] === "\\" && ++i >= pattern.length) return null;
      for (let b = previous; b <= pattern.charCodeAt(i); b++) {
        has[b] = 1;
        // Text arrives folded; git folds ranges but not single bytes of a set, and so does this.
        if (fold && b >= 0x41 && b <= 0x5a) has[b + 0x20] = 1;
      }
      byte = 0;
    } else if (pattern[i] === "[" && pattern[i + 1] === ":") {
      const close = pattern.indexOf("]", i + 2);
      if (close < 0) return null;
      if (pattern[close - 1] === ":" && close - 1 >= i + 2) {
        const inClass = CLASSES.get(pattern.slice(i + 2, close - 1));
        if (inClass === undefined) return null;
        for (let b = 0; b < 128; b++) if (inClass(b)) has[b] = 1;
        // Folded text holds no capitals, so [[:upper:]] has to accept small letters.
        if (fold && inClass === CLASSES.get("upper")) {
          for (let b = 0x61; b <= 0x7a; b++) has[b] = 1;
        }
        i = close;
        byte = 0;
      } else has[byte] = 1;
    } else has[byte] = 1;
    previous = byte;
    i++;
  }
  if (negated) { for (let b = 0; b < 256; b++) has[b] = has[b] === 1 ? 0 : 1; }
  return { has, end: i + 1 };
}

/** Follows every way through `steps` at once. `live[i]` says that step i may come next. */
function run(steps: readonly Step[], text: string, pathname: boolean): boolean {
  const count = steps.length;
  let live = new Uint8Array(count + 1);
  let next = new Uint8Array(count + 1);
  activate(steps, live, 0);
  for (let t = 0; t < text.length; t++) {
    const byte = text.charCodeAt(t);
    next.fill(0);
    let alive = false;
    for (let s = 0; s < count; s++) {
      if (live[s] === 0) continue;
      const step = steps[s]!;
      let to = -1;
      switch (step.kind) {
        case "byte":
          if (byte === step.byte) to = s + 1;
          break;
        case "any":
          if (!pathname || byte !== SLASH) to = s + 1;
          break;
        case "set":
          if (byte < 256 && step.has[byte] === 1) to = s + 1;
          break;
        case "star":
          if (step.slash || byte !== SLASH) to = s;
          break;
        case "directories":
          // Still inside: only a slash may end it.
          next[s] = 1;
          alive = true;
          if (byte === SLASH) to = s + 1;
          break;
      }
      if (to >= 0) {
        activate(steps, next, to);
        alive = true;
      }
    }
    if (!alive) return false;
    [live, next] = [next, live];
  }
  return live[count] === 1;
}

/** Marks step `s`, and those after it that can be reached without a byte. */
function activate(steps: readonly Step[], live: Uint8Array, s: number): void {
  for (;;) {
    live[s] = 1;
    const step = steps[s];
    if (step === undefined || (step.kind !== "star" && step.kind !== "directories")) return;
    s++;
  }
}
