/**
 * The last answer of `status --json` in this directory, given again while everything it was made from is
 * as it was. Agents ask again and again, and most of the time nothing has happened; what then takes the
 * time is loading the code that would find out the same.
 *
 *   inputs as they were when it was made ──yes──▶ print it, end
 *        │ no, or something else was asked
 *        ▼
 *   the long way ──▶ print ──▶ inputs still as they were before it began? ──yes──▶ keep the answer
 *                                    │ no, or their list is another one
 *                                    └──▶ keep the list of inputs only
 *
 * Of the inputs nothing but a digest is kept: the environment and git's configuration hold passwords.
 *
 * An answer is kept only when nothing that it rests on changed while it was made. The file is written
 * without a sync, and its fingerprint tells whether it is whole; one that can't be read, or that another
 * user could have written, is as if it weren't there. There are at most 256 of them: directories whose
 * fingerprints end alike take the place from each other.
 */
import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  openSync,
  readFileSync,
  renameSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { hash } from "../src/platform/hash.ts";
import { fingerprint, type Input, readInputs } from "../src/platform/inputs.ts";
import { makeBelow } from "../src/platform/make-below.ts";
import { VERSION } from "./version.ts";

export interface LastAnswer {
  /** The whole output of the command that is asked for; null where the long way has to be gone. */
  readonly output: string | null;
  /** Keeps what the long way printed, which was made from `inputs` and nothing else. Never fails. */
  keep(stateDirectory: string, inputs: readonly Input[], output: string): void;
}

interface Kept {
  /** A digest of what was asked, and of the environment. */
  readonly key: string;
  readonly inputs: readonly Input[];
  /** A digest of the inputs' values. */
  readonly values: string;
  readonly output: string | null;
}

const MAX_BYTES = 256 * 1024;

/** Variables that may change an answer or what it is made from. */
const RELEVANT = /^(?:AGENTQ_|GIT_|XDG_)|^(?:HOME|USERPROFILE|SUDO_UID)$/;
/** With these, or flags like them, a repository is found in other ways than the inputs say. */
const ELSEWHERE =
  /^(?:AGENTQ_REPO|GIT_(?:DIR|COMMON_DIR|WORK_TREE|OBJECT_DIRECTORY|CEILING_DIRECTORIES))$/;

/** Looks for the answer to `argv`, the words of a `status`. Null where none can be kept. */
export function lastAnswer(argv: readonly string[]): LastAnswer | null {
  if (process.geteuid === undefined || !isCompiled()) return null;
  if (argv.some((word) => /^--(?:repo|state)(?:=|$)/.test(word))) return null;
  const { env } = process;
  const relevant = Object.keys(env).filter((name) => RELEVANT.test(name)).sort();
  if (relevant.some((name) => ELSEWHERE.test(name))) return null;
  let directory: string;
  try {
    directory = process.cwd();
  } catch {
    return null;
  }
  const state = env.AGENTQ_STATE ||
    (env.XDG_STATE_HOME?.startsWith("/")
      ? `${env.XDG_STATE_HOME}/agentq`
      : env.HOME
      ? `${env.HOME}/.local/state/agentq`
      : "");
  if (!isPlainPath(state)) return null;
  const key = digest([
    VERSION,
    process.geteuid(),
    directory,
    argv,
    relevant.map((name) => [name, env[name]]),
  ]);
  const file = `${state}/answers/${fingerprint(directory).slice(-2)}`;
  const before = read(file, key);
  // The state directory is made where it never was; one that was moved away during the run is not.
  const base = before !== null || existsSync(state) ? state : null;
  const values = before && digest(readInputs(before.inputs));
  const same = before !== null && before.values === values;
  return {
    output: same ? before.output : null,
    keep(used, list, output) {
      if (used !== state) return;
      const inputs: Input[] = [["file", process.execPath], ...list];
      const after = digest(readInputs(inputs));
      const unchanged = before !== null && values === after &&
        JSON.stringify(before.inputs) === JSON.stringify(inputs);
      write(file, base, { key, inputs, values: after, output: unchanged ? output : null });
    },
  };
}

/** Absolute, and as `resolve` would leave it. */
function isPlainPath(path: string): boolean {
  return path.startsWith("/") && !/\/(?:\.{0,2})(?:\/|$)/.test(path);
}

/** From source, a change of the code wouldn't be seen. */
function isCompiled(): boolean {
  return (process.argv[1] ?? "").startsWith("/$bunfs/");
}

const digest = (values: readonly unknown[]): string => hash("sha256", JSON.stringify(values));

/** What was kept for this key; null when there is nothing that this user alone could have written. */
function read(file: string, key: string): Kept | null {
  try {
    const fd = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    let text: string;
    try {
      const stat = fstatSync(fd);
      const { uid, mode, size } = stat;
      if (
        !stat.isFile() || uid !== process.geteuid!() || (mode & 0o022) !== 0 || size > MAX_BYTES
      ) return null;
      text = readFileSync(fd, "utf8");
    } finally {
      closeSync(fd);
    }
    const end = text.indexOf("\n");
    const content = text.slice(end + 1);
    if (text.slice(0, end) !== fingerprint(content)) return null;
    const kept: Kept = JSON.parse(content);
    return kept.key === key ? kept : null;
  } catch {
    return null;
  }
}

function write(file: string, base: string | null, kept: Kept): void {
  const content = JSON.stringify(kept);
  const part = `${file}.${process.pid}`;
  if (content.length > MAX_BYTES / 4) return;
  try {
    makeBelow(base, file.slice(0, file.lastIndexOf("/")), 0o700);
    writeFileSync(part, `${fingerprint(content)}\n${content}`, { mode: 0o600, flag: "wx" });
    renameSync(part, file);
  } catch {
    try {
      unlinkSync(part);
    } catch {
      // Never begun.
    }
  }
}
