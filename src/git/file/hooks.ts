/**
 * The origin's hooks, run as git's receive-pack runs them: in the git directory, with GIT_DIR=".", old
 * and new values on standard input or as arguments, their output passed on to whoever pushes.
 *
 * One that isn't executable is none, as with git, and whoever pushes hears of it: it may be the one that
 * guards the branch, on a disk whose modes were lost. One that is and can't be run refuses the push.
 */
import { Buffer } from "node:buffer";
import { join } from "node:path";
import { spawnPiped } from "../../platform/spawn-piped.ts";
import { abortReason } from "../../platform/clock.ts";
import { hasHook, type HookHost } from "./hook-files.ts";

export { hasHook, heldHooksDirectory, type HookHost, hooksDirectory } from "./hook-files.ts";

export type HookOutcome =
  | { readonly ran: false }
  | { readonly ran: true; readonly ok: true; readonly output: string }
  /** Exited with something else than 0, or could not be run: `problem` says which. */
  | { readonly ran: true; readonly ok: false; readonly output: string; readonly problem: string };

/** Output beyond this is dropped: a hook that babbles must not fill our memory. */
const MAX_OUTPUT = 1 << 20;

/** How long a hook's output is read after its end where something holds the pipes, in milliseconds. */
const LAST_WORDS_MS = 250;

/** Variables of the pushing process's own repository, which a hook must not inherit. */
const LOCAL_VARIABLES = [
  "GIT_ALTERNATE_OBJECT_DIRECTORIES",
  "GIT_COMMON_DIR",
  "GIT_CONFIG",
  "GIT_CONFIG_COUNT",
  "GIT_CONFIG_PARAMETERS",
  "GIT_DIR",
  "GIT_GRAFT_FILE",
  "GIT_IMPLICIT_WORK_TREE",
  "GIT_INDEX_FILE",
  "GIT_INTERNAL_SUPER_PREFIX",
  "GIT_NAMESPACE",
  "GIT_NO_REPLACE_OBJECTS",
  "GIT_OBJECT_DIRECTORY",
  "GIT_PREFIX",
  "GIT_PUSH_OPTION_COUNT",
  "GIT_QUARANTINE_PATH",
  "GIT_REPLACE_REF_BASE",
  "GIT_SHALLOW_FILE",
  "GIT_WORK_TREE",
];

/**
 * Runs a hook, if there is one.
 * @param env added to what git itself would set
 * @throws the signal's reason when it is aborted; the hook is killed then
 */
export function runHook(
  host: HookHost,
  name: string,
  options: {
    args?: readonly string[];
    input?: string;
    env?: Readonly<Record<string, string>>;
    signal?: AbortSignal;
  } = {},
): Promise<HookOutcome> {
  if (!hasHook(host, name)) return Promise.resolve({ ran: false });
  const path = join(host.hooksDir, name);
  const refuse = (problem: string): HookOutcome => ({ ran: true, ok: false, output: "", problem });
  const env: Record<string, string | undefined> = { ...process.env };
  for (const variable of LOCAL_VARIABLES) delete env[variable];
  Object.assign(env, { GIT_DIR: "." }, options.env);

  const attempt = (program: string, args: readonly string[]) =>
    new Promise<HookOutcome | "no-format">((settle, reject) => {
      const { signal } = options;
      if (signal?.aborted) return reject(abortReason(signal));
      let piped;
      try {
        piped = spawnPiped(program, args, { cwd: host.gitDir, env, input: options.input ?? "" });
      } catch (cause) {
        return settle(notStarted(cause));
      }
      const { child, outputs, closed } = piped;
      const chunks: Buffer[] = [];
      let size = 0;
      const take = (chunk: Buffer) => {
        if (size < MAX_OUTPUT) chunks.push(chunk);
        size += chunk.length;
      };
      for (const stream of outputs) stream.on("data", take);
      const onAbort = () => child.kill("SIGKILL");
      signal?.addEventListener("abort", onAbort, { once: true });
      const finish = (then: () => void) => {
        signal?.removeEventListener("abort", onAbort);
        then();
      };
      const output = () => Buffer.concat(chunks).toString("utf8").slice(0, MAX_OUTPUT);
      child.once("error", (cause) => finish(() => settle(notStarted(cause))));
      const end = (code: number | null, killedBy: string | null) =>
        finish(() => {
          if (signal?.aborted) return reject(abortReason(signal));
          if (code === 0) return settle({ ran: true, ok: true, output: output() });
          const how = killedBy ? `was killed by ${killedBy}` : `declined (exit ${code})`;
          settle({ ran: true, ok: false, output: output(), problem: `hook ${name} ${how}` });
        });
      child.once("exit", (code, killedBy) => {
        // What it said last is still in the pipes. What it left running may hold them open for good:
        // that is never waited for, nor does it keep this process.
        const timer = setTimeout(() => {
          for (const stream of outputs) {
            const pipe = stream as { unref?: () => void; destroy(): void };
            // Read on while we are here, so that saying something doesn't kill it.
            pipe.unref?.();
          }
          end(code, killedBy);
        }, LAST_WORDS_MS);
        closed.then(() => {
          clearTimeout(timer);
          end(code, killedBy);
        });
      });
    });

  function notStarted(cause: unknown): HookOutcome | "no-format" {
    const code = (cause as { code?: string }).code;
    if (code === "ENOEXEC") return "no-format";
    const why = code === "ENOENT" ? "its interpreter is missing" : String(code ?? cause);
    return refuse(`hook ${name} exists but could not be run: ${why} (${path})`);
  }

  const args = options.args ?? [];
  return attempt(path, args).then((outcome) => {
    if (outcome !== "no-format") return outcome;
    // A script without its #! line: like execvp, hand it to the shell.
    return attempt("/bin/sh", [path, ...args]).then((second) =>
      second === "no-format" ? refuse(`hook ${name} has no format this system can run`) : second
    );
  });
}
