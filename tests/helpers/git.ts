/** Real git, isolated from this machine's configuration, for building fixtures and checking results. */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";

const roots: string[] = [];
process.on("exit", () => {
  for (const root of roots) rmSync(root, { recursive: true, force: true });
});

/** A fresh directory that is removed when the test process ends. */
export function tempDir(prefix = "agentq-test-"): string {
  const dir = mkdtempSync(join(tmpdir(), prefix));
  roots.push(dir);
  return dir;
}

/** The environment every real git in the tests runs with: no system or user configuration. */
export function gitEnv(extra: Record<string, string> = {}): Record<string, string> {
  return {
    PATH: process.env.PATH ?? "/usr/bin:/bin",
    HOME: "/nonexistent",
    LC_ALL: "C",
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_GLOBAL: "/dev/null",
    GIT_AUTHOR_NAME: "A U Thor",
    GIT_AUTHOR_EMAIL: "author@example.com",
    GIT_COMMITTER_NAME: "C O Mitter",
    GIT_COMMITTER_EMAIL: "committer@example.com",
    ...extra,
  };
}

export interface GitRun {
  status: number;
  stdout: string;
  stderr: string;
}

/** Runs git and returns its status and output, whatever the status. */
export function tryGit(
  cwd: string,
  args: readonly string[],
  options: { input?: string | Uint8Array; env?: Record<string, string> } = {},
): GitRun {
  const run = spawnSync("git", [...args], {
    cwd,
    env: gitEnv(options.env),
    input: options.input,
    encoding: "utf8",
    maxBuffer: 1 << 30,
  });
  if (run.error) throw run.error;
  return { status: run.status ?? 128, stdout: run.stdout, stderr: run.stderr };
}

/** Runs git, throws when it fails, and returns its standard output without the final newline. */
export function git(cwd: string, ...args: string[]): string {
  const run = tryGit(cwd, args);
  if (run.status !== 0) {
    throw new Error(`git ${args.join(" ")} exited ${run.status}: ${run.stderr}`);
  }
  return run.stdout.replace(/\n$/, "");
}

/** Writes a file below `dir`, making its directories. */
export function write(dir: string, path: string, content: string | Uint8Array): void {
  const full = join(dir, path);
  mkdirSync(dirname(full), { recursive: true });
  writeFileSync(full, content);
}

/** A new repository on branch `main` without commits. */
export function makeRepo(dir = tempDir()): string {
  git(dir, "init", "-q", "-b", "main", ".");
  return dir;
}

/** Writes `files`, adds everything, commits, and returns the commit's id. */
export function commit(
  dir: string,
  message: string,
  files: Record<string, string | Uint8Array> = {},
): string {
  for (const [path, content] of Object.entries(files)) write(dir, path, content);
  git(dir, "add", "-A");
  git(dir, "commit", "-q", "--allow-empty", "-m", message);
  return git(dir, "rev-parse", "HEAD");
}
