/**
 * Origins built by real git: bare, append-only, with hooks that admit only the branch, `feat/*` and
 * the queue's namespace, and that log every move of the branch.
 */
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { commit, git, makeRepo, tempDir, tryGit } from "../../helpers/git.ts";

/** An origin and what the checker needs to know about it. */
export interface TestOrigin {
  /** The bare repository on disk. */
  readonly dir: string;
  /** What agents use as their remote: the directory, or a url that serves it. */
  url: string;
  readonly branch: string;
  /** The branch's first commit. */
  readonly initial: string;
  /** `old new` a line, written by post-receive for each move of the branch. */
  readonly movesLog: string;
  /** Written by the verify script: `start|ok ticket head tree tip`. */
  readonly verifyLog: string;
  readonly verifyScript: string;
  /** Extra git configuration that a clone needs to reach `url`. */
  cloneConfig: Record<string, string>;
}

export interface OriginOptions {
  branch?: string;
  /** Files of the first commit. */
  files?: Record<string, string | Uint8Array>;
  /** Lines put in front of the standard pre-receive; they see $old $new $ref for each update. */
  preReceive?: string;
  /** Git configuration set in the bare repository. */
  config?: Record<string, string>;
  /** Name of the bare repository's directory. */
  name?: string;
}

/** A file that merges line by line: agents edit different lines of it. */
export const SHARED_FILE = Array.from({ length: 60 }, (_, i) => `line ${i + 1}\n`).join("");

/** Builds an origin below a fresh directory. */
export function makeOrigin(options: OriginOptions = {}): TestOrigin {
  const root = tempDir("agentq-origin-");
  const branch = options.branch ?? "main";
  const dir = join(root, options.name ?? "origin.git");
  const seed = makeRepo(join(makeDir(join(root, "seed"))));
  git(seed, "checkout", "-q", "-B", branch);
  const initial = commit(
    seed,
    "first",
    options.files ?? { "shared.txt": SHARED_FILE, "README": "hello\n" },
  );
  git(root, "clone", "-q", "--bare", seed, dir);
  git(dir, "remote", "remove", "origin");
  git(dir, "symbolic-ref", "HEAD", `refs/heads/${branch}`);
  for (
    const [key, value] of Object.entries({
      "receive.denyNonFastForwards": "true",
      "receive.denyDeletes": "true",
      "receive.fsckObjects": "true",
      "core.logAllRefUpdates": "false",
      "gc.auto": "0",
      ...options.config,
    })
  ) git(dir, "config", key, value);
  const origin: TestOrigin = {
    dir,
    url: dir,
    branch,
    initial,
    movesLog: join(root, "moves.log"),
    verifyLog: join(root, "verify.log"),
    verifyScript: join(root, "verify.sh"),
    cloneConfig: {},
  };
  installHooks(origin, options.preReceive ?? "");
  writeFileSync(origin.verifyScript, verifyScript(origin.verifyLog));
  return origin;
}

function makeDir(dir: string): string {
  mkdirSync(dir, { recursive: true });
  return dir;
}

/** (Re)writes a hook of the origin. */
export function setHook(origin: TestOrigin, name: string, script: string): void {
  const path = join(origin.dir, "hooks", name);
  mkdirSync(join(origin.dir, "hooks"), { recursive: true });
  writeFileSync(path, `#!/bin/sh\n${script}`);
  chmodSync(path, 0o755);
}

/** The standard hooks, with `extra` run for each update before the policy. */
export function installHooks(origin: TestOrigin, extra = ""): void {
  setHook(
    origin,
    "pre-receive",
    `while read -r old new ref; do
${extra}
  case "$ref" in
    ${shellQuote(`refs/heads/${origin.branch}`)}|refs/heads/feat/*|refs/weave/*) ;;
    *) echo "policy: $ref is not admitted here" >&2; exit 1 ;;
  esac
done
`,
  );
  setHook(
    origin,
    "post-receive",
    `while read -r old new ref; do
  if [ "$ref" = ${shellQuote(`refs/heads/${origin.branch}`)} ]; then
    echo "$old $new" >> ${shellQuote(origin.movesLog)}
  fi
done
`,
  );
}

/** Quotes a string for sh. */
export function shellQuote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/**
 * The verify command of the tests. It uses the host's git by its absolute path to record what the
 * worktree really is (the agent's own PATH has none), refuses an unclean worktree, then runs its
 * argument. `ok` is written only when everything passed.
 */
function verifyScript(log: string): string {
  return `set -e
export GIT_OPTIONAL_LOCKS=0 GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
here=$(/usr/bin/git rev-parse HEAD 'HEAD^{tree}' | while read -r line; do printf '%s ' "$line"; done)
echo "start $AGENTQ_TICKET $here$AGENTQ_TIP" >> ${shellQuote(log)}
dirt=$(/usr/bin/git status --porcelain)
if [ -n "$dirt" ]; then echo "worktree is not clean: $dirt"; exit 9; fi
[ "$AGENTQ_TICKET" = "$WEAVE_QUEUE_TICKET" ]
[ "$AGENTQ_CANDIDATE" = "$WEAVE_QUEUE_CANDIDATE" ]
[ -n "$AGENTQ_REPO" ]
eval "$1"
echo "ok $AGENTQ_TICKET $here$AGENTQ_TIP" >> ${shellQuote(log)}
`;
}

/** The verify command for `--verify-cmd`; `then` is shell code run in the worktree after logging. */
export function verifyCommand(origin: TestOrigin, then = ":"): string {
  return `sh ${shellQuote(origin.verifyScript)} ${shellQuote(then)}`;
}

/** A log file's lines, none when the file doesn't exist. */
export function logLines(path: string): string[] {
  if (!existsSync(path)) return [];
  return readFileSync(path, "utf8").split("\n").filter((line) => line !== "");
}

/** What the origin's ref points to, null when there is none. */
export function refOf(origin: TestOrigin, ref: string): string | null {
  const run = tryGit(origin.dir, ["rev-parse", "-q", "--verify", `${ref}^{commit}`]);
  return run.status === 0 ? run.stdout.trim() : null;
}

/** The ref of one of the branch's chains. */
export function chainRef(origin: TestOrigin, chain: "queue" | "done" | "lock"): string {
  return `refs/weave/${origin.branch}/${chain}`;
}

/** The branch's commit at the origin. */
export function tipOf(origin: TestOrigin): string {
  return refOf(origin, `refs/heads/${origin.branch}`)!;
}

/** All refs of the origin, for "nothing changed". */
export function allRefs(origin: TestOrigin): string {
  return git(origin.dir, "for-each-ref", "--format=%(refname) %(objectname)");
}

/** Someone outside the queue moves the branch by a real `git push`; gives the commit pushed. */
export function pushOutside(
  origin: TestOrigin,
  files: Record<string, string>,
  message = "outside",
): string {
  const dir = join(tempDir("agentq-outside-"), "clone");
  git("/", "clone", "-q", origin.dir, dir);
  git(dir, "checkout", "-q", origin.branch);
  const oid = commit(dir, message, files);
  git(dir, "push", "-q", "origin", `HEAD:refs/heads/${origin.branch}`);
  return oid;
}
