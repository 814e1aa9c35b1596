/**
 * The files of `git credential-store`, one url with user and password a line; read and written here, so
 * that they hold without a git program too.
 */
import { closeSync, openSync, readFileSync, renameSync, unlinkSync, writeSync } from "node:fs";
import { join } from "node:path";
import { expandHome } from "../config-sources.ts";
import type { Credential } from "./credentials.ts";
import { urlDecoded } from "../url-decode.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** What is asked for: a server, a path there where paths count, a user where one is named. */
export interface CredentialPlace {
  readonly protocol: string;
  readonly host: string;
  readonly path?: string;
  readonly username?: string;
}

/** The files of the helper `store [--file=PATH]`, the one that is written to first. */
export function storeFiles(helper: string, env: Env): string[] {
  const named = /--file[= ]\s*("[^"]*"|'[^']*'|\S+)/.exec(helper)?.[1]
    ?.replace(/^["'](.*)["']$/, "$1");
  if (named) return [expandHome(named, env)];
  const home = env.HOME ?? "";
  const xdg = env.XDG_CONFIG_HOME || join(home, ".config");
  return [join(home, ".git-credentials"), join(xdg, "git", "credentials")];
}

export function lookUp(files: readonly string[], place: CredentialPlace): Credential | null {
  for (const file of files) {
    for (const line of lines(file) ?? []) {
      const stored = parse(line);
      if (stored && fits(stored, place)) {
        return { username: stored.username, password: stored.password };
      }
    }
  }
  return null;
}

/** Keeps a credential that a server has accepted. Files that can't be written are left as they are. */
export function keep(
  files: readonly string[],
  place: CredentialPlace,
  { username, password }: Credential,
): void {
  const file = files.find((path) => lines(path) !== null) ?? files[0]!;
  const path = place.path === undefined ? "" : `/${encodedPath(place.path)}`;
  const login = `${encoded(username)}:${encoded(password)}`;
  const line = `${place.protocol}://${login}@${encoded(place.host)}${path}`;
  change(file, (old) => [line, ...old.filter((one) => !same(one, { ...place, username }))]);
}

/** Forgets a credential that a server has turned down, and only that one. */
export function forget(
  files: readonly string[],
  place: CredentialPlace,
  { username, password }: Credential,
): void {
  for (const file of files) {
    const refused = (line: string) =>
      same(line, { ...place, username }) && parse(line)!.password === password;
    if (lines(file)?.some(refused)) change(file, (old) => old.filter((line) => !refused(line)));
  }
}

interface Stored {
  readonly protocol: string;
  readonly host: string;
  readonly path: string;
  readonly username: string;
  readonly password: string;
}

/** As git reads it: each part is percent-encoded by itself, the host with its port too. */
function parse(line: string): Stored | null {
  const match = /^([A-Za-z][A-Za-z0-9+.-]*):\/\/([^/@:]*):([^/@]*)@([^/]*)(?:\/(.*))?$/.exec(
    line.trim(),
  );
  if (!match) return null;
  const decode = (text = "") => urlDecoded(text) ?? text;
  const [, protocol, username, password, host, path] = match;
  if (password === "") return null;
  return {
    protocol: protocol!,
    host: decode(host),
    path: decode(path).replace(/\/+$/, ""),
    username: decode(username),
    password: decode(password),
  };
}

const small = (text: string) => text.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase());

/** Everything but letters, digits and `-._~`, in git's spelling, so that its erase finds it too. */
function encoded(text: string): string {
  return small(encodeURIComponent(text)).replace(
    /[!'()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16)}`,
  );
}

function encodedPath(text: string): string {
  return small(encodeURI(text)).replaceAll("%5b", "[").replaceAll("%5d", "]");
}

function fits(stored: Stored, place: CredentialPlace): boolean {
  return stored.protocol === place.protocol && stored.host === place.host &&
    (place.path === undefined || stored.path === place.path) &&
    (place.username === undefined || stored.username === place.username);
}

function same(line: string, place: CredentialPlace): boolean {
  const stored = parse(line);
  return stored !== null && fits(stored, place);
}

function lines(file: string): string[] | null {
  try {
    return readFileSync(file, "utf8").split("\n").filter((line) => line !== "");
  } catch {
    return null;
  }
}

/** Under git's own lock; a file that somebody else is writing is left alone. */
function change(file: string, edit: (old: string[]) => string[]): void {
  const lock = `${file}.lock`;
  let fd: number;
  try {
    fd = openSync(lock, "wx", 0o600);
  } catch {
    return;
  }
  try {
    try {
      writeSync(fd, edit(lines(file) ?? []).map((line) => `${line}\n`).join(""));
    } finally {
      closeSync(fd);
    }
    renameSync(lock, file);
  } catch {
    try {
      unlinkSync(lock);
    } catch {
      // Renamed already.
    }
  }
}
