/** Following the advice of a report as it stands, with sh and git. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { git, gitEnv } from "../../helpers/git.ts";

/** Which of two answers is taken, where advice has two; `keep`: the one that keeps what somebody changed. */
export type Choice = "command" | "drop" | "keep";

export interface Followed {
  /** Lines of advice that say what to edit, and which file. */
  readonly edits: { readonly file: string; readonly line: string }[];
  readonly commands: string[];
  /** What has to be passed to `submit` then. */
  readonly drops: string[];
}

/** The lines of a report that advise on a path. */
export const adviceOf = (report: string): string[] =>
  report.split("\n").filter((line) =>
    /^ {2}(?:Parent \d|Only parent|Both sides|It was changed|Its mode|Merging |What stands there|… and)/
      .test(line)
  ).map((line) => line.trim());

const asShellReads = (word: string): string =>
  spawnSync("sh", ["-c", `printf %s ${word}`], { encoding: "utf8" }).stdout;

export function runShell(dir: string, command: string): void {
  const run = spawnSync("sh", ["-c", command], { cwd: dir, env: gitEnv(), encoding: "utf8" });
  assert.equal(run.status, 0, `${command}: ${run.stderr}${run.stdout}`);
}

/** Runs all commands that a report advises, and commits what comes of them and of `edit`. */
export function follow(
  dir: string,
  report: string,
  edit: (file: string, line: string) => void = (_, line) => assert.fail(`only an edit: ${line}`),
  choice: Choice = "command",
): Followed {
  const followed: Followed = { edits: [], commands: [], drops: [] };
  for (const line of adviceOf(report)) {
    const advice = line.slice(line.indexOf(": ") + 2);
    const [, drop, what] =
      /--drop=("\$\(printf '.*?'\)"|\$'.*?'|'.*?'|\S+) (keeps|lets)/.exec(advice) ?? [];
    const isKept = what === "lets" || choice === "drop" ||
      choice === "keep" && !advice.includes(" keeps it changed, ");
    if (drop !== undefined && isKept) {
      followed.drops.push(asShellReads(drop));
      continue;
    }
    const said = advice
      .replace(/ deletes it with what was changed, --drop=.*$/, "")
      .replace(/ keeps it changed, --drop=.*$/, "")
      .replace(
        /^--drop=.* keeps what stands there now(?:, |\.$)(.*?)(?: puts that of parent .*)?$/,
        "$1",
      );
    for (const part of said.split(/; then |(?<=there too), then /)) {
      const file = /^edit (.*?) so that /.exec(part)?.[1];
      if (file !== undefined) {
        followed.edits.push({ file: asShellReads(file), line });
        edit(asShellReads(file), line);
        git(dir, "add", "-A");
      } else if (part !== "") {
        followed.commands.push(part);
        runShell(dir, part);
      }
    }
  }
  git(dir, "commit", "-q", "--allow-empty", "-a", "-m", "as advised");
  return followed;
}
