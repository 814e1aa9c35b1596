/** Whether a program can be run, looked up before a message is taken: `sh` would say so once for each. */
import { Buffer } from "node:buffer";
import { accessSync, closeSync, constants, openSync, readSync, statSync } from "node:fs";
import { basename, resolve } from "node:path";
import { AgentqError } from "../errors.ts";
import { kindOf } from "./binary.ts";
import { quoted } from "./names.ts";

/** As the system reads of a script's first line. */
const FIRST_LINE_BYTES = 256;
/** Where programs are looked for without a PATH. */
const DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/** Interpreters may be scripts themselves, and so on, to the depth at which the system gives up. */
const MAX_DEPTH = 4;

/** Throws `command-not-started`, saying what is wrong, unless `program` can be run in `cwd`. */
export function requireProgram(program: string, cwd: string): void {
  const found = find(program, cwd);
  if (typeof found === "string") {
    if (isEmpty(found)) throw empty(program);
    return requireInterpreter(program, found, cwd, MAX_DEPTH);
  }
  switch (found?.problem) {
    case undefined:
      throw notStarted(`there is no program ${quoted(program)}`);
    case "directory":
      throw notStarted(`${quoted(program)} is a directory, not a program`);
    case "mode":
      throw notStarted(
        `${quoted(program)} is there, but can't be executed`,
        "Make it executable (chmod +x), or name the program that reads it: -- sh FILE.",
      );
  }
}

/**
 * What the shell that was to run `program` said at its end, where it couldn't for a reason that its file's
 * place and mode don't show: it is being written (ETXTBSY), or is none of this machine (ENOEXEC). Null where
 * the words aren't the shell's about this program: a program may end with its status, and scripts run others.
 */
export function whyNotRun(
  program: string,
  cwd: string,
  output: string,
): { code?: string; message: string } | null {
  // Some name the file that they found, and say a second thing after the first.
  const file = find(program, cwd);
  const names = typeof file === "string" ? [program, file] : [program];
  const messages = output.trimEnd().split("\n").slice(-2).flatMap((line) => {
    const rest = line.replace(/^sh: (?:(?:line )?\d+: )?(?:exec: )?(?:line \d+: )?/, "");
    const name = rest === line ? undefined : names.find((each) => rest.startsWith(`${each}: `));
    return name === undefined ? [] : [rest.slice(name.length + 2)];
  });
  for (const message of messages) {
    for (const [code, words] of Object.entries(SAID)) {
      if (words.test(message)) return { code, message };
    }
  }
  return messages.length === 0 ? null : { message: messages[0]! };
}

/** Other words (of other languages) are passed on as they are. */
const SAID: Readonly<Record<string, RegExp>> = {
  ETXTBSY: /Text file busy/,
  ENOEXEC: /Exec format error/,
};

/** The file that is run, or why the one that is there can't be; null where there is none. */
function find(
  program: string,
  cwd: string,
): string | { problem: "directory" | "mode" } | null {
  if (program === "" || program.includes("\0")) return null;
  const places = program.includes("/")
    ? [resolve(cwd, program)]
    : (process.env.PATH ?? DEFAULT_PATH).split(":").map((directory) =>
      resolve(cwd, directory, program)
    );
  let problem: "directory" | "mode" | undefined;
  for (const place of places) {
    try {
      const stat = statSync(place);
      if (!stat.isFile()) problem ??= "directory";
      else {
        problem = "mode";
        accessSync(place, constants.X_OK);
        return place;
      }
    } catch {
      // Not here.
    }
  }
  // On PATH a directory of the name is none of what is meant.
  if (problem === undefined || (problem === "directory" && !program.includes("/"))) return null;
  return { problem };
}

/**
 * Throws `command-not-started` where the program's file is empty, or its interpreter's. To the shell that is a script
 * that does nothing, and succeeds: it would be taken to have handled whatever it was given. Mostly its next version is
 * being copied into its place, so that it is worth waiting. Throws too where the system won't execute the interpreter:
 * the shell would run the script itself, in whatever language it is.
 */
export function requireContent(program: string, cwd: string): void {
  const file = find(program, cwd);
  if (typeof file !== "string") return;
  if (isEmpty(file)) throw empty(program);
  requireInterpreter(program, file, cwd, MAX_DEPTH);
}

const isEmpty = (file: string) => statSync(file, { throwIfNoEntry: false })?.size === 0;

function empty(program: string): AgentqError {
  return new AgentqError(
    "command-not-started",
    `${quoted(program)} is an empty file, which would do nothing`,
    {
      retryable: true,
      hint: "Write a new version beside it and move it into place (mv).",
      details: { program: quoted(program), errno: "ETXTBSY" },
    },
  );
}

/** A script whose interpreter isn't there is reported by the system as if itself weren't. */
function requireInterpreter(program: string, file: string, cwd: string, depth: number): void {
  const words = depth > 0 ? interpreterOf(file) : null;
  if (words === null) return;
  const interpreter = words[0]!;
  const found = find(interpreter.includes("/") ? interpreter : `./${interpreter}`, cwd);
  if (typeof found !== "string") throw noInterpreter(program, interpreter);
  const named = basename(interpreter) === "env" ? namedToEnv(words.slice(1)) : null;
  const run = named === null ? found : find(named, cwd);
  if (typeof run !== "string") throw noInterpreter(program, named!);
  for (const each of new Set([found, run])) {
    const kind = kindOf(each);
    if (kind === "empty") throw empty(each);
    // What `env` runs it has the shell run, where the system doesn't.
    if (kind === "foreign" || (kind === "text" && each === found)) throw foreign(program, each);
  }
  requireInterpreter(program, run, cwd, depth - 1);
}

/** The words after `#!`; null where the file begins with something else or can't be read. */
function interpreterOf(file: string): string[] | null {
  const head = Buffer.alloc(FIRST_LINE_BYTES);
  let length: number;
  try {
    const fd = openSync(file, "r");
    try {
      length = readSync(fd, head, 0, head.length, 0);
    } finally {
      closeSync(fd);
    }
  } catch {
    return null; // What may be executed need not be readable.
  }
  const [first = ""] = head.subarray(0, length).toString("latin1").split("\n", 1);
  if (!first.startsWith("#!")) return null;
  const words = first.slice(2).split(/[ \t]+/).filter((word) => word !== "");
  return words.length === 0 ? null : words;
}

/** The program that `env` is to run, where that is plain to see: without quotes, variables and another PATH. */
function namedToEnv(words: readonly string[]): string | null {
  if (words.some((word) => /["'\\$]|^PATH=/.test(word))) return null;
  for (const word of words) {
    if (word === "-S" || word === "-i" || /^\w+=/.test(word)) continue;
    return word.startsWith("-") ? null : word;
  }
  return null;
}

function foreign(program: string, interpreter: string): AgentqError {
  return new AgentqError(
    "command-not-started",
    `${quoted(program)} can't be run: its interpreter ${
      quoted(interpreter)
    } is no program for this machine, or damaged`,
    {
      hint: "Put an interpreter there that is whole, and built for this machine.",
      details: { program: quoted(program), errno: "ENOEXEC" },
    },
  );
}

function noInterpreter(program: string, interpreter: string): AgentqError {
  return notStarted(
    `${quoted(program)} can't be run: there is no interpreter ${quoted(interpreter)}`,
    "Install the interpreter, or correct the script's first line.",
  );
}

function notStarted(message: string, hint?: string): AgentqError {
  return new AgentqError("command-not-started", message, hint === undefined ? {} : { hint });
}
