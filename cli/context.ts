/**
 * What a command is given: settings resolved from flags, environment and git config (in that order of
 * precedence), the repository and origin they name, opened on first use, and where output goes.
 */
import { AgentqError, isAgentqError } from "../src/errors.ts";
import type { Origin } from "../src/git/types.ts";
import { refuseForeign } from "../src/git/ownership.ts";
import { openRepository, type Repository } from "../src/git/repository.ts";
import type { Input } from "../src/platform/inputs.ts";
import {
  absolutePath,
  currentDirectory,
  currentDirectoryOrNull,
} from "../src/platform/directory.ts";
import { escapeTerminal, safeJson } from "./output/escape.ts";
import { createProgress, type Progress } from "./output/progress.ts";
import { writeOut } from "./output/write.ts";
import { tellingOfWaits } from "./slow-origin.ts";
import type { Flags } from "./spec.ts";
import { defaultStateDirectory } from "./state.ts";

export interface Context {
  readonly json: boolean;
  readonly quiet: boolean;
  readonly verbose: boolean;
  /** Aborted by SIGINT and SIGTERM: release what is held, then throw or return. */
  readonly signal: AbortSignal;
  readonly progress: Progress;
  /** The clone; throws `not-a-repository` where there is none. */
  repository(): Repository;
  /** The clone, or null where there is none (`--remote URL` works without). */
  repositoryOrNull(): Repository | null;
  /** Name or url of the remote as set. */
  readonly remote: string;
  /** The branch as set, or null for "the remote's HEAD, else main". */
  readonly branch: string | null;
  readonly namespace: string;
  /** Directory of agentq's local state; not created here. Throws `state-unavailable` where there is none. */
  readonly stateDirectory: string;
  /** Opens the origin that `remote` names; closed when the command ends. */
  origin(): Promise<Origin>;
  /**
   * Prints a result: `document` as one JSON line with `--json`, else `human()` as text. Whatever in
   * the text came from outside is escaped here.
   */
  print(document: unknown, human: () => string): void;
  /**
   * Has the document that was printed, if one was, given again while its inputs are as they are. `inputs`
   * tells all that it was made from, null when that isn't known.
   */
  keepAnswer(inputs: () => readonly Input[] | null): void;
}

/** Keeps an output that was made from `inputs` and nothing else. */
export type KeepAnswer = (
  stateDirectory: string,
  inputs: readonly Input[],
  output: string,
) => void;

/** The current directory lies in no clone. */
function noRepository(hint?: string): AgentqError {
  const message = `no git repository at or above ${currentDirectory()}`;
  return new AgentqError("not-a-repository", message, hint === undefined ? {} : { hint });
}

/** Opens the clone of this run once; null where there is none. */
export interface RepositoryOpener {
  (): Repository | null;
  /** What is broken about what was found at or above the current directory; null: nothing was found. */
  problem(): AgentqError | null;
}

/** Creates the context of one run; `close()` ends what was opened. */
export function createContext(
  flags: Flags,
  repositoryOf: RepositoryOpener,
  signal: AbortSignal,
  keep?: KeepAnswer,
): Context & { close(): void } {
  const text = (name: string, fallback: string) => String(flags[name] ?? fallback);
  const json = flags.json === true;
  let origin: Promise<Origin> | undefined;
  let printed: string | undefined;
  let state: string | undefined;
  const context: Context & { close(): void } = {
    json,
    quiet: flags.quiet === true,
    verbose: flags.verbose === true,
    signal,
    progress: createProgress(flags.quiet === true, escapeTerminal),
    repositoryOrNull: repositoryOf,
    repository() {
      const repository = repositoryOf();
      if (repository) return repository;
      throw repositoryOf.problem() ?? noRepository();
    },
    remote: text("remote", "origin"),
    branch: flags.branch === undefined ? null : text("branch", ""),
    namespace: text("namespace", "refs/weave").replace(/\/+$/, ""),
    // When it is asked for: whoever needs none goes on without a home.
    get stateDirectory() {
      return state ??= absolutePath(text("state", "") || defaultStateDirectory());
    },
    origin() {
      origin ??= (async () => {
        const { openOrigin } = await import("../src/git/origin.ts");
        const repository = repositoryOf();
        // A url works without a clone and from nowhere; a name or a relative path doesn't.
        if (repository === null && !/^\/|:/.test(context.remote)) currentDirectory();
        const note = (text: string) => context.progress.warn(text);
        const opened = await openOrigin(context.remote, { repository, note }).catch((error) => {
          if (repository !== null || !isAgentqError(error, "remote-unknown")) throw error;
          throw repositoryOf.problem() ??
            noRepository("Run inside a clone, name one with --repo DIR, or pass --remote URL.");
        });
        return tellingOfWaits(opened, (text) => context.progress.line(text));
      })();
      return origin;
    },
    print(document, human) {
      context.progress.clear();
      if (json) return writeOut(printed = `${safeJson(document)}\n`);
      const lines = human();
      if (lines !== "") writeOut(`${escapeTerminal(lines).replace(/\n$/, "")}\n`);
    },
    keepAnswer(inputs) {
      if (keep === undefined || printed === undefined) return;
      const list = inputs();
      if (list !== null) keep(context.stateDirectory, list, printed);
    },
    close() {
      context.progress.clear();
      void origin?.then((opened) => opened.close(), () => {});
    },
  };
  return context;
}

function foundFrom(directory: string): Repository {
  const repository = openRepository(directory, { env: process.env });
  refuseForeign(repository, process.env);
  return repository;
}

/** Opens the repository for a run: `--repo` must be one; the current directory may be one. */
export function repositoryOpener(repo: string | undefined): RepositoryOpener {
  let opened: Repository | null | undefined;
  let broken: AgentqError | null = null;
  const open = () => {
    if (opened !== undefined) return opened;
    try {
      const here = currentDirectoryOrNull();
      if (repo === undefined && here === null) return opened = null;
      opened = repo === undefined ? foundFrom(here!) : openRepository(absolutePath(repo));
    } catch (error) {
      if (
        repo !== undefined || !(error instanceof AgentqError) || error.code !== "not-a-repository"
      ) {
        throw error;
      }
      // A worktree whose clone is gone says more than that nothing was found.
      if (error.details?.gitDir !== undefined) broken = error;
      opened = null;
    }
    return opened;
  };
  return Object.assign(open, { problem: () => broken });
}
