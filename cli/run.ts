/**
 * One run: find the command, resolve its flags, load its code, run it, print what went wrong.
 *
 * Signals: the first SIGINT, SIGTERM or SIGHUP aborts `context.signal`, on which commands release the lock and
 * temp files; a second one ends the process at once, but for SIGHUP, of which a closed terminal sends several.
 * A reader of stdout that goes away is another kind, as SIGPIPE would be. Exit 130, 143, 129 and 141 follow the
 * shells' convention. A command that had done its work when the signal came says so and exits as it would have
 * without: 130, 143 and 129 mean that it was stopped.
 */
import { AgentqError } from "../src/errors.ts";
import { isHangupDeadly } from "../src/platform/hangup.ts";
import { submissionInDoubt } from "../src/landing/under-way.ts";
import { expectMuchWork } from "../src/platform/jit.ts";
import { whenWaiting } from "../src/platform/waiting.ts";
import { refuseChanged } from "./argv-bytes.ts";
import { createContext, type KeepAnswer, repositoryOpener } from "./context.ts";
import { printError, toAgentqError } from "./output/errors.ts";
import {
  codeAfterOutput,
  endRun,
  hasAnswered,
  whenOutputCloses,
  writeOut,
} from "./output/write.ts";
import { locate, parse } from "./parse.ts";
import { resolveFlags, saysYes } from "./settings.ts";
import { type GitConfig, openConfig } from "../src/git/config.ts";
import { GLOBAL_FLAGS, STOPPED } from "./spec.ts";
import { COMMANDS } from "./table.ts";
import { VERSION } from "./version.ts";

const SIGNAL_EXIT = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;
const PIPE_EXIT = 141;

/** What `argv` holds in front of a `--`: help and json are looked for only there. */
function ownWords(argv: readonly string[]): readonly string[] {
  const end = argv.indexOf("--");
  return end < 0 ? argv : argv.slice(0, end);
}

async function help(argv: readonly string[]): Promise<number> {
  const { commandHelp, generalHelp } = await import("./help.ts");
  const words = argv.filter((word) => word !== "--help" && word !== "-h" && word !== "help");
  if (words.every((word) => word.startsWith("-"))) {
    writeOut(generalHelp(COMMANDS, VERSION));
    return 0;
  }
  const said = words.filter((word) => !word.startsWith("-")).join(" ");
  const group = COMMANDS.filter((one) => `${one.path.join(" ")} `.startsWith(`${said} `));
  if (group.length > 0 && !group.some((one) => one.path.join(" ") === said)) {
    writeOut(generalHelp(group, VERSION));
    return 0;
  }
  writeOut(commandHelp(locate(words, COMMANDS).spec));
  return 0;
}

/** Ended at once, by a second signal. */
function cutOff(signal: string): AgentqError {
  const submission = submissionInDoubt();
  if (submission !== null) {
    return new AgentqError(
      "interrupted",
      `cut off by a second ${signal} while submission ${submission} was being pushed: it may be queued`,
      {
        hint:
          "agentq status tells; submitting the same commit again finds its ticket, or gives it one.",
        retryable: false,
        details: { submission },
      },
    );
  }
  return new AgentqError("interrupted", `cut off by a second ${signal}`, {
    hint: "Look at what was done before you run it again; messages it held come back in time.",
    retryable: false,
  });
}

/** Says what was done, or that nobody knows: not that a signal was in the way of it. */
function tellsOutcome({ code, retryable }: AgentqError): boolean {
  return !retryable || OUTCOME_UNKNOWN.includes(code);
}

const OUTCOME_UNKNOWN: readonly string[] = [
  "commit-uncertain",
  "backend-outcome-unknown",
  "push-unknown",
];

/**
 * Runs `argv` (without the program's name) and returns the exit code.
 * @param keepAnswer takes an answer that can be given again, see `last-answer.ts`
 */
export async function runCommandLine(
  argv: readonly string[],
  keepAnswer?: KeepAnswer,
): Promise<number> {
  return codeAfterOutput(await runCommand(argv, keepAnswer));
}

async function runCommand(argv: readonly string[], keepAnswer?: KeepAnswer): Promise<number> {
  const own = ownWords(argv);
  let json = own.includes("--json") || saysYes(process.env.AGENTQ_JSON);
  let verbose = own.includes("--verbose");
  const abort = new AbortController();
  let signalExit = 0;
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    if (name === "SIGHUP" && !isHangupDeadly()) continue;
    process.on(name, () => {
      if (signalExit !== 0) {
        if (name === "SIGHUP") return;
        printError(cutOff(name), { json: json && !hasAnswered(), verbose });
        endRun(SIGNAL_EXIT[name]);
      }
      signalExit = SIGNAL_EXIT[name];
      abort.abort(new AgentqError("interrupted", `stopped by ${name}`));
    });
  }
  whenOutputCloses(() => {
    if (signalExit !== 0) return;
    signalExit = PIPE_EXIT;
    abort.abort(new AgentqError("interrupted", "nobody reads the output any more"));
  });
  let close = () => {};
  try {
    if (own.includes("--version") || own[0] === "-V") {
      const document = { schema: "agentq.version/1", version: VERSION };
      writeOut(json ? `${JSON.stringify(document)}\n` : `agentq ${VERSION}\n`);
      return 0;
    }
    if (own.includes("--help") || own.includes("-h") || own[0] === "help" || argv.length === 0) {
      return await help(own);
    }
    const { spec, rest } = locate(argv, COMMANDS);
    const parsed = await parse(spec, rest);
    refuseChanged(argv, spec, parsed);
    const { args, given } = parsed;
    const named = given.repo ?? (process.env.AGENTQ_REPO || undefined);
    const repo = typeof named === "string" ? named : undefined;
    const open = repositoryOpener(repo);
    const clone = spec.withoutClone
      ? (await import("./broken-clone.ts")).cloneOrConfig(open, repo)
      : null;
    // The system's and the person's own count outside of any clone too.
    let outside: GitConfig | null = null;
    const configOf = (): GitConfig | null => {
      const config = clone ? clone.config : open()?.config ?? null;
      return config ?? (clone?.problem ? null : outside ??= openConfig({ repository: null }));
    };
    const specs = [...(spec.flags ?? []), ...GLOBAL_FLAGS];
    const flags = resolveFlags(specs, given, (flag) => {
      const config = configOf();
      // A key alone is a boolean that is on, as for git.
      const isBoolean = specs.some(({ name, kind }) => name === flag && kind === "boolean");
      const valuesOf = (key: string): string[] =>
        isBoolean
          ? config?.entries().filter((one) => one.key === key).map(({ value }) =>
            value ?? "true"
          ) ?? []
          : config?.getAll(key) ?? [];
      const values = valuesOf(`agentq.${flag}`);
      return values.length > 0 ? values : valuesOf(`agentq.${flag.replaceAll("-", "")}`);
    });
    json = flags.json === true;
    verbose = flags.verbose === true;
    const context = createContext(flags, open, abort.signal, keepAnswer);
    close = context.close;
    const { progress } = context;
    whenWaiting((what) => progress.waiting(what));
    if (!spec.brief) expectMuchWork();
    const command = await spec.load();
    abort.signal.throwIfAborted();
    const code = await command.run(context, args, flags);
    return code === STOPPED || signalExit === PIPE_EXIT ? signalExit : code;
  } catch (thrown) {
    close();
    const error = toAgentqError(thrown);
    printError(error, { json, verbose });
    return tellsOutcome(error) && signalExit !== PIPE_EXIT ? error.exitCode : signalExit ||
      error.exitCode;
  } finally {
    close();
  }
}
