/**
 * .gitattributes: what git would answer for a path, from a tree (for merges without a work tree), from
 * the work tree, or from whatever else can give the text of a directory's file.
 *
 * Files are asked in this order and the first that speaks of an attribute decides; within a file the
 * last line decides:
 *
 *   $GIT_DIR/info/attributes ▸ the path's directory ▸ … ▸ the root ▸ core.attributesFile ▸ system ▸ built in
 *
 * A macro (`[attr]name …`) may only be defined in the files that aren't in a subdirectory.
 */
import { Buffer } from "node:buffer";
import { parsePathPattern, type PathPattern } from "./path-pattern.ts";
import { unquoteC } from "./quote.ts";

/** Set (`text`), unset (`-text`) or a value (`eol=lf`). An unspecified attribute is absent. */
export type AttributeValue = true | false | string;

/** What is specified for one path. */
export type Attributes = ReadonlyMap<string, AttributeValue>;

/** Gives the content of the .gitattributes in a directory ("" is the root), null when there is none. */
export type AttributeFiles = (directory: string) => Uint8Array | null;

/** Answers for paths (byte strings, `/`-separated, of files). Directories are read once. */
export interface AttributeLookup {
  of(path: string): Attributes;
}

export interface AttributeLookupOptions {
  files: AttributeFiles;
  /** $GIT_DIR/info/attributes. */
  info?: Uint8Array | null;
  /** core.attributesFile. */
  global?: Uint8Array | null;
  /** The machine's own file. */
  system?: Uint8Array | null;
  /** core.ignoreCase. */
  ignoreCase?: boolean;
}

/** git's limits: a longer line, or a larger file, is passed over. */
const MAX_LINE = 2048;
const MAX_FILE = 100 * 1024 * 1024;

const NOTHING: Attributes = new Map();
const BUILT_IN = "[attr]binary -diff -merge -text\n";

/** null stands for `!name`: decided, and decided to be unspecified. */
type Assignment = { readonly name: string; readonly value: AttributeValue | null };
interface Rule {
  readonly pattern: PathPattern;
  readonly assignments: readonly Assignment[];
}
interface ParsedFile {
  readonly rules: readonly Rule[];
  readonly macros: ReadonlyMap<string, readonly Assignment[]>;
}
/** A file's rules and the length of the directory prefix that their paths lose. */
interface Frame {
  readonly rules: readonly Rule[];
  readonly strip: number;
}

/** Makes a lookup; reading and parsing happen when a path asks for them. */
export function attributeLookup(options: AttributeLookupOptions): AttributeLookup {
  const ignoreCase = options.ignoreCase ?? false;
  const parse = (content: Uint8Array | null | undefined, macros: boolean): ParsedFile =>
    parseAttributes(content ?? null, macros, ignoreCase);
  const info = parse(options.info, true);
  const root = parse(options.files(""), true);
  const global = parse(options.global, true);
  const system = parse(options.system, true);
  const builtIn = parse(Buffer.from(BUILT_IN, "latin1"), true);
  // The first definition in the order of precedence is the one that counts.
  const macros = new Map<string, readonly Assignment[]>();
  for (const file of [builtIn, system, global, root, info]) {
    for (const [name, assignments] of file.macros) macros.set(name, assignments);
  }
  const below: Frame[] = [root, global, system]
    .filter((file) => file.rules.length > 0)
    .map((file) => ({ rules: file.rules, strip: 0 }));
  const above: Frame[] = info.rules.length > 0 ? [{ rules: info.rules, strip: 0 }] : [];

  // Frames for a directory: its own file, then its parents', then those of the whole repository.
  const directories = new Map<string, readonly Frame[]>([["", below]]);
  const framesOf = (directory: string): readonly Frame[] => {
    const known = directories.get(directory);
    if (known !== undefined) return known;
    const parent = framesOf(directory.slice(0, Math.max(directory.lastIndexOf("/"), 0)));
    const { rules } = parse(options.files(directory), false);
    const frames = rules.length > 0 ? [{ rules, strip: directory.length + 1 }, ...parent] : parent;
    directories.set(directory, frames);
    return frames;
  };

  return {
    of(path) {
      const slash = path.lastIndexOf("/");
      const frames = framesOf(slash < 0 ? "" : path.slice(0, slash));
      if (frames.length === 0 && above.length === 0) return NOTHING;
      const decided = new Map<string, AttributeValue | null>();
      for (const frame of above) applyFrame(frame, path, decided, macros);
      for (const frame of frames) applyFrame(frame, path, decided, macros);
      if (decided.size === 0) return NOTHING;
      for (const [name, value] of decided) if (value === null) decided.delete(name);
      return decided as Map<string, AttributeValue>;
    },
  };
}

/** The attributes of one path: `lookup.of(path)`, for callers that have a function's place to fill. */
export function attributesFor(path: string, lookup: AttributeLookup): Attributes {
  return lookup.of(path);
}

function applyFrame(
  frame: Frame,
  path: string,
  decided: Map<string, AttributeValue | null>,
  macros: ReadonlyMap<string, readonly Assignment[]>,
): void {
  const relative = frame.strip === 0 ? path : path.slice(frame.strip);
  for (let i = frame.rules.length - 1; i >= 0; i--) {
    const rule = frame.rules[i]!;
    if (rule.pattern.matches(relative, false)) assign(rule.assignments, decided, macros);
  }
}

/** Later assignments decide over earlier ones; a macro that is set brings what it stands for. */
function assign(
  assignments: readonly Assignment[],
  decided: Map<string, AttributeValue | null>,
  macros: ReadonlyMap<string, readonly Assignment[]>,
): void {
  for (let i = assignments.length - 1; i >= 0; i--) {
    const { name, value } = assignments[i]!;
    if (decided.has(name)) continue;
    decided.set(name, value);
    const macro = value === true ? macros.get(name) : undefined;
    if (macro !== undefined) assign(macro, decided, macros);
  }
}

function parseAttributes(
  content: Uint8Array | null,
  macrosAllowed: boolean,
  ignoreCase: boolean,
): ParsedFile {
  const rules: Rule[] = [];
  const macros = new Map<string, readonly Assignment[]>();
  if (content === null || content.length > MAX_FILE) return { rules, macros };
  const text = Buffer.from(content.buffer, content.byteOffset, content.length).toString("latin1");
  for (const raw of text.replace(/^\xef\xbb\xbf/, "").split("\n")) {
    if (raw.length >= MAX_LINE) continue;
    const line = raw.replace(/^[ \t\r]+/, "");
    if (line === "" || line.startsWith("#")) continue;
    const { name, rest } = splitName(line);
    const assignments = parseAssignments(rest);
    if (assignments === null) continue;
    if (name.length > 6 && name.startsWith("[attr]")) {
      const macro = name.slice(6);
      if (macrosAllowed && isAttributeName(macro)) macros.set(macro, assignments);
      continue;
    }
    const pattern = parsePathPattern(name, ignoreCase);
    // `!pattern` means nothing here: git warns and passes over it.
    if (!pattern.negative && assignments.length > 0) rules.push({ pattern, assignments });
  }
  return { rules, macros };
}

/** The pattern (unquoted when it is a well-formed C string) and the text after it. */
function splitName(line: string): { name: string; rest: string } {
  if (line.startsWith('"')) {
    const quoted = /^"(?:[^"\\]|\\.)*"/.exec(line)?.[0] ?? "";
    const name = unquoteC(quoted);
    if (name !== null) return { name, rest: line.slice(quoted.length) };
  }
  const end = line.search(/[ \t\r]/);
  return end < 0 ? { name: line, rest: "" } : { name: line.slice(0, end), rest: line.slice(end) };
}

/** null when a name is no attribute name: git passes over the whole line. */
function parseAssignments(text: string): Assignment[] | null {
  const assignments: Assignment[] = [];
  for (const word of text.split(/[ \t\r]+/)) {
    if (word === "") continue;
    const sign = word[0] === "-" || word[0] === "!" ? word[0] : "";
    const equals = word.indexOf("=");
    const name = word.slice(sign.length, equals < 0 ? undefined : equals);
    if (!isAttributeName(name)) return null;
    const value = sign === "-" ? false : sign === "!" ? null : equals < 0 || word.slice(equals + 1);
    assignments.push({ name, value });
  }
  return assignments;
}

function isAttributeName(name: string): boolean {
  return /^[A-Za-z0-9_.][-A-Za-z0-9_.]*$/.test(name);
}
