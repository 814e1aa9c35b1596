/**
 * OpenSSH's configuration of clients (ssh_config), as much of it as the embedded client can honour.
 *
 *   ~/.ssh/config ─▶ /etc/ssh/ssh_config     Host and Match blocks, Include; the first value of a word wins
 */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, isAbsolute, join } from "node:path";
import { AgentqError } from "../../errors.ts";
import { matchesPattern } from "./known-hosts.ts";

/** Whom the configuration is asked about, as the url names them. */
export interface Asked {
  readonly host: string;
  readonly user: string | null;
  readonly port: number | null;
  /** Who runs this, for `Match localuser`. */
  readonly localUser: string;
}

/** Values by word in lower case, as they stand in the files: tokens and `~` not expanded. */
export type SshWords = ReadonlyMap<string, readonly string[]>;

/** Words of which every value counts. */
const ALL_COUNT = new Set(["identityfile", "certificatefile"]);
/** Words whose value is a list. */
const LISTS = new Set(["userknownhostsfile", "globalknownhostsfile"]);
const MAX_DEPTH = 16;

/**
 * What the files say to a host, the more important file first.
 * @throws `config-invalid` for a file that ssh would refuse, or a condition that only ssh can decide
 */
export function sshWords(files: readonly string[], asked: Asked): SshWords {
  const words = new Map<string, string[]>();
  if (asked.user !== null) words.set("user", [asked.user]);
  if (asked.port !== null) words.set("port", [String(asked.port)]);
  for (const file of files) readInto(words, file, dirname(file), asked, true, 0);
  return words;
}

function readInto(
  words: Map<string, string[]>,
  file: string,
  directory: string,
  asked: Asked,
  outer: boolean,
  depth: number,
): void {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch {
    return;
  }
  if (depth > MAX_DEPTH) throw invalid(file, 0, "it includes itself");
  let active = outer;
  for (const [i, line] of text.split(/\r?\n/).entries()) {
    const [word, ...values] = split(line);
    if (word === undefined) continue;
    if (values.length === 0) throw invalid(file, i + 1, `${word} has no value`);
    switch (word) {
      case "host":
        active = outer && namesHost(values, asked.host);
        break;
      case "match":
        active = outer && fits(values, words, asked, () => invalid(file, i + 1, "unclear Match"));
        break;
      case "include":
        if (!active) break;
        for (const path of values.flatMap((value) => expanded(value, directory))) {
          readInto(words, path, directory, asked, true, depth + 1);
        }
        break;
      default: {
        if (!active) break;
        const known = words.get(word);
        const value = LISTS.has(word) ? values : [values.join(" ")];
        if (known === undefined) words.set(word, value);
        else if (ALL_COUNT.has(word) && !known.includes(value[0]!)) known.push(...value);
      }
    }
  }
}

/** A line's word in lower case and its values: quoted, or separated by blanks; `=` behind the word. */
function split(line: string): string[] {
  const match = /^\s*([A-Za-z][A-Za-z0-9]*)(?:\s*=\s*|\s+|$)(.*)$/.exec(line);
  if (!match) return [];
  const values: string[] = [];
  for (const [whole, quoted] of match[2]!.matchAll(/"((?:[^"\\]|\\.)*)"|(?:[^\s"\\]|\\.)+/g)) {
    if (quoted === undefined && whole.startsWith("#")) break;
    values.push((quoted ?? whole).replace(/\\(["\\ ])/g, "$1"));
  }
  return [match[1]!.toLowerCase(), ...values];
}

function namesHost(patterns: readonly string[], host: string): boolean {
  let found = false;
  for (const pattern of patterns) {
    const negated = pattern.startsWith("!");
    if (!matchesPattern(negated ? pattern.slice(1) : pattern, host)) continue;
    if (negated) return false;
    found = true;
  }
  return found;
}

/** The conditions of a Match line, all of which must hold. */
function fits(
  values: readonly string[],
  words: SshWords,
  asked: Asked,
  unclear: () => AgentqError,
): boolean {
  let all = true;
  for (let i = 0; i < values.length; i++) {
    const negated = values[i]!.startsWith("!");
    const name = values[i]!.replace(/^!/, "").toLowerCase();
    if (name === "all") {
      if (values.length > 1) throw unclear();
      return !negated;
    }
    // There is one pass only; a second one comes with what isn't supported.
    if (name === "canonical" || name === "final") {
      all &&= negated;
      continue;
    }
    const of = {
      originalhost: () => asked.host,
      host: () => hostName(words, asked.host),
      user: () => words.get("user")?.[0] ?? asked.localUser,
      localuser: () => asked.localUser,
    }[name];
    const patterns = values[++i]?.split(",");
    if (patterns === undefined) throw unclear();
    // Once one fails the rest can't help it, whatever they are.
    if (of === undefined) {
      if (!all) continue;
      throw new AgentqError(
        "config-invalid",
        `ssh's configuration has Match ${name}, which can't be decided without the ssh program.`,
        { hint: "Install ssh, or name the hosts with Host." },
      );
    }
    all &&= namesHost(patterns, of()) !== negated;
  }
  return all;
}

/** The name to connect to: HostName with its tokens. */
export function hostName(words: SshWords, host: string): string {
  const name = words.get("hostname")?.[0];
  return name === undefined ? host : name.replace(/%([%hn])/g, (_, c) => c === "%" ? "%" : host);
}

/** The files an Include names; `*` and `?` in their names, relative ones beside the including file. */
function expanded(value: string, directory: string): string[] {
  const home = dirname(directory);
  const path = value.startsWith("~/") ? join(home, value.slice(2)) : value;
  const full = isAbsolute(path) ? path : join(directory, path);
  let found = [""];
  for (const part of full.split("/")) {
    if (part === "") continue;
    found = found.flatMap((base) => {
      if (!/[*?]/.test(part)) return [`${base}/${part}`];
      try {
        return readdirSync(base === "" ? "/" : base).sort()
          .filter((name) => matchesPattern(part, name) && (part[0] === "." || name[0] !== "."))
          .map((name) => `${base}/${name}`);
      } catch {
        return [];
      }
    });
  }
  return found;
}

function invalid(file: string, line: number, why: string): AgentqError {
  const where = line > 0 ? `, line ${line}` : "";
  return new AgentqError("config-invalid", `${file}${where}: ${why}.`, { details: { path: file } });
}
