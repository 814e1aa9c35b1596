/** ~/.netrc, or the file that NETRC names, as curl reads it for git. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Credential } from "./credentials.ts";

/** The entry for a host; `user` narrows it when not empty. */
export function netrcCredential(
  host: string,
  user: string,
  env: Readonly<Record<string, string | undefined>>,
): Credential | null {
  const path = env.NETRC ?? (env.HOME ? join(env.HOME, ".netrc") : null);
  if (path === null) return null;
  try {
    return parseNetrc(readFileSync(path, "utf8"), host, user);
  } catch {
    return null;
  }
}

/** The entry for a host in the format of ~/.netrc; `user` narrows it when not empty. */
export function parseNetrc(text: string, host: string, user: string): Credential | null {
  const words = wordsOf(text);
  const unquote = (word = "") =>
    word.startsWith('"') ? word.slice(1, -1).replace(/\\(.)/g, "$1") : word;
  let fits = false;
  let login = "";
  let password: string | null = null;
  const result = () =>
    fits && password !== null && (user === "" || login === user)
      ? { username: login, password }
      : null;
  for (let i = 0; i < words.length; i++) {
    switch (words[i]) {
      case "machine":
      case "default": {
        const found = result();
        if (found) return found;
        fits = words[i] === "default" || unquote(words[++i]).toLowerCase() === host.toLowerCase();
        login = "";
        password = null;
        break;
      }
      case "login":
        login = unquote(words[++i]);
        break;
      case "password":
        password = unquote(words[++i]);
        break;
      case "account":
        i++;
    }
  }
  return result();
}

/** What stands there beside comments and macros: these (`macdef NAME`) run to the next empty line. */
function wordsOf(text: string): string[] {
  const words: string[] = [];
  let inMacro = false;
  for (const line of text.split("\n")) {
    if (inMacro) {
      inMacro = line.trim() !== "";
      continue;
    }
    if (/^\s*#/.test(line)) continue;
    const found = line.match(/"(?:[^"\\]|\\.)*"|\S+/g) ?? [];
    // A value may be that word too.
    const macro = found.findIndex((word, at) =>
      word === "macdef" && !VALUED.test([...words, ...found.slice(0, at)].at(-1) ?? "")
    );
    inMacro = macro >= 0;
    words.push(...(inMacro ? found.slice(0, macro) : found));
  }
  return words;
}

/** Words with a value behind them. */
const VALUED = /^(machine|login|password|account)$/;
