/**
 * `receive.fsckObjects`, `receive.fsck.<message>` and `receive.fsck.skipList`, read as receive-pack reads
 * them: it writes all of `receive.fsck` into one word for the program that unpacks, which takes that apart
 * again at spaces, commas and bars.
 */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { AgentqError } from "../../errors.ts";
import type { GitConfig } from "../config.ts";
import { expandHome } from "../config-sources.ts";
import { type MessageId, SEVERITIES } from "./messages.ts";

export interface FsckSettings {
  /** Whether an object with this fault is refused. */
  refuses(id: MessageId): boolean;
  /** Whether an object is excused from every check of its own. */
  skips(oid: string): boolean;
}

const IDS = new Map(
  (Object.keys(SEVERITIES) as MessageId[]).map((id) => [id.toLowerCase(), id]),
);
const PREFIX = "receive.fsck.";

/**
 * How this origin checks what it is sent; null when it doesn't.
 * @param gitDir where a relative skip list is looked for, as receive-pack works there
 * @throws `config-invalid` for settings with which git's receive-pack ends too
 */
export function readFsckSettings(config: GitConfig, gitDir: string): FsckSettings | null {
  const words: string[] = [];
  for (const { key, value } of config.entries()) {
    if (!key.startsWith(PREFIX)) continue;
    const name = key.slice(PREFIX.length);
    if (value === null) throw invalid(key, "has no value");
    if (name === "skiplist") words.push(`skiplist=${expandHome(value, process.env)}`);
    else if (IDS.has(name)) {
      // Even where nothing is checked: git reads the settings before it asks for that.
      checkSeverity(key, value);
      words.push(`${name}=${value}`);
    }
  }
  const checks = config.getBoolean("receive.fsckObjects") ??
    config.getBoolean("transfer.fsckObjects") ?? false;
  return checks ? parseWords(words.join(","), gitDir) : null;
}

function parseWords(text: string, gitDir: string): FsckSettings {
  const severities = new Map<MessageId, string>();
  const skipped = new Set<string>();
  for (const word of text.split(/[ ,|]+/)) {
    if (word === "") continue;
    const [, name, value] = /^([^=:]*)[=:]?(.*)$/s.exec(word)!;
    if (name!.length === word.length) throw invalid(PREFIX + word, "has no value");
    if (name!.toLowerCase() === "skiplist") {
      for (const oid of readSkipList(resolve(gitDir, value!))) skipped.add(oid);
      continue;
    }
    const key = PREFIX + name!.toLowerCase();
    const id = IDS.get(name!.toLowerCase());
    if (id === undefined) throw invalid(key, "is no message of git's fsck");
    checkSeverity(key, value!);
    if (SEVERITIES[id] === "fatal" && value !== "error") {
      throw invalid(PREFIX + id, `can't be ${value}: git always refuses that`);
    }
    severities.set(id, value!);
  }
  return {
    refuses: (id) => {
      const set = severities.get(id);
      return set === undefined ? /fatal|error|warn/.test(SEVERITIES[id]) : set === "error";
    },
    skips: (oid) => skipped.has(oid),
  };
}

function checkSeverity(key: string, value: string): void {
  if (!["error", "warn", "ignore"].includes(value)) {
    throw invalid(key, `is ${JSON.stringify(value)}, which is none of error, warn and ignore`);
  }
}

function readSkipList(path: string): string[] {
  let text: string;
  try {
    text = readFileSync(path, "latin1");
  } catch {
    throw invalid(`${PREFIX}skipList`, `names ${path}, which can't be read`);
  }
  const names = text.split("\n").map((line) => line.replace(/#.*/s, "").trim());
  return names.filter((name) => name !== "").map((name) => {
    if (/^[0-9a-f]{40}$/i.test(name)) return name.toLowerCase();
    const shown = JSON.stringify(name.slice(0, 80));
    throw invalid(`${PREFIX}skipList`, `names ${path}, in which ${shown} is no object's id`);
  });
}

function invalid(key: string, what: string): AgentqError {
  return new AgentqError("config-invalid", `The origin's ${key} ${what}.`, { details: { key } });
}
