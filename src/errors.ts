/**
 * The one error type of agentq and the table of every code it can carry.
 *
 * An error is raised where its cause is known, travels upward unchanged, and is printed once, in
 * `cli/`. Codes are stable: scripts match on them (`--json` prints `{"error":{"code",…}}`).
 */

/** What a code means: its default hint, whether trying the same thing again can help, its exit code. */
export interface ErrorKind {
  /** What the person or agent reading it should do next. */
  readonly hint: string;
  /** True when the same call may succeed later without any change. */
  readonly retryable?: boolean;
  /** Process exit code; 2 (the run failed) unless given. `signal`: 128 and the number of the signal. */
  readonly exit?: 1 | 2 | 3 | 64 | "signal";
}

/** Every error code, in one place, grouped by the layer that raises it. */
export const ERROR_KINDS = {
  // cli
  "usage": { hint: "Run the command with --help to see what it takes.", exit: 64 },
  "internal": {
    hint: "This is a fault in agentq: please report it with the command that led here.",
  },
  "interrupted": {
    hint: "Run the command again: nothing was left half done.",
    retryable: true,
    exit: "signal",
  },
  "config-invalid": { hint: "Correct the setting that the message names." },

  // platform
  "current-directory-gone": {
    hint:
      "Change to a directory that exists, or name all by absolute paths (--repo DIR, --remote URL).",
  },
  "io-error": { hint: "Look at the file or directory that the message names." },
  "command-not-started": {
    hint: "Install the program that the message names, or put its directory on PATH.",
  },

  "durability-unavailable": {
    hint:
      "Use a directory on a file system that can fsync directories (ext4, xfs, btrfs, apfs, …).",
  },

  // store (v2) and v1 directories
  "store-missing": { hint: "Create it with: agentq store init --store DIR." },
  "store-exists": {
    hint: "It is ready to be used as it is; use another directory for a new store.",
  },
  "store-invalid": {
    hint: "Restore the file that the message names from a copy of the same store.",
  },
  "store-locked": {
    hint: "Wait and try again; agentq store check names the owner.",
    retryable: true,
  },
  "unlock-refused": { hint: "Make sure that the owner has ended before removing its lock." },
  "lock-lost": { hint: "Run the command again, and find out who removed the lock." },
  "init-incomplete": {
    hint:
      "Look at what is there, then run: agentq store init --resume-after-inspection --store DIR.",
  },
  "version-unsupported": {
    hint: "Use the version of agentq that wrote this store, or a newer one.",
  },
  "store-id-mismatch": {
    hint: "format.json and state.json come from two stores: put the right one back.",
  },
  "identity-changed": {
    hint: "Find out what else writes there, put back what belongs there, then run it again.",
  },
  "mode-unsupported": {
    hint: "Use a file system that keeps permissions, or create the store with --allow-open-modes.",
  },
  "v1-directory": { hint: "Use it as v1:DIR, or give the v2 store a directory of its own." },
  "v2-directory": { hint: "Use it as store:DIR, or give the v1 queue a directory of its own." },
  "commit-uncertain": {
    hint: "The change may or may not have been made; look at the queue before trying again.",
  },
  "limit-exceeded": { hint: "Drain or prune the store, or use the sqlite or redis backend." },
  "stale-generation": { hint: "Somebody else finished or took over this message: drop it." },
  "already-exists": { hint: "Choose another name, or remove the existing entry first." },
  "not-found": { hint: "List what exists, then name one of those." },
  "name-invalid": {
    hint: "Use 1–100 characters of a–z, 0–9, dot, dash and underscore (no dot first or last).",
  },
  "payload-unreadable": {
    hint: "Move the message to the dead letters; its payload can't be used.",
  },
  "helper-unavailable": {
    hint: "This file system refuses hardlinks, which v1 queues need: use a v2 store (store:DIR).",
  },

  // git: repositories and objects
  "not-a-repository": { hint: "Run inside a clone, or name one with --repo DIR." },
  "repository-foreign": {
    hint:
      "If you trust it, name it (--repo DIR, or AGENTQ_REPO), or add it to safe.directory in ~/.gitconfig.",
  },
  "repository-unsupported": {
    hint: "agentq reads SHA-1 repositories with files refs; see docs/git.md.",
  },
  "repository-corrupt": { hint: "Run git fsck in that repository." },
  "object-missing": {
    hint: "Fetch it, or run git fsck: the repository lacks an object it refers to.",
  },
  "revision-ambiguous": { hint: "Write more digits of the object id." },
  "revision-unknown": { hint: "Name a commit, branch or tag that exists in the clone." },
  "ref-locked": {
    hint: "Wait for the other process; a lock left behind by a killed git may be removed.",
    retryable: true,
  },
  "ref-moved": {
    hint: "Run the command again: it will start from the new value.",
    retryable: true,
  },
  "ref-name-invalid": { hint: "Use a name that git check-ref-format accepts." },

  // git: the index and work trees
  "index-corrupt": {
    hint: "Remove the index file and run git reset there; what was staged has to be staged again.",
  },
  "index-unsupported": { hint: "Rewrite the index in a form that the message allows." },
  "index-locked": {
    hint: "Wait for the git command that runs there; if none does, remove the lock file.",
    retryable: true,
  },
  "unsafe-path": {
    hint: "The commit names a path that must not be written; nothing was. Find out who made it.",
  },
  "path-not-representable": {
    hint: "Use the agentq binary on Linux, where file names are bytes, or rename the file.",
  },
  "worktree-busy": {
    hint: "Every worktree is in use by a running agentq: wait for one of them to finish.",
    retryable: true,
  },
  "worktree-foreign": {
    hint: "The directory is something else's: choose another, or remove what is there.",
  },

  // landing
  "branch-name-collision": {
    hint: "Rename one of the two branches, or give this queue another --namespace.",
  },
  "branch-unknown": {
    hint: "Correct --branch, or begin the branch with this commit: add --create-branch.",
  },
  "corrupt-chain": {
    hint:
      "Someone wrote to the queue's refs by hand: look at that commit with git cat-file -p, and " +
      "have the origin's ref set back to the last good entry before it.",
  },
  "chain-unsupported": { hint: "Update agentq: this queue was written by a newer one." },
  "push-refused": {
    hint: "The origin's words above say why; ask who runs it. Nothing was changed.",
  },
  "push-unknown": {
    hint: "Run the same command again: it finds out what happened and goes on from there.",
    retryable: true,
  },
  "origin-stuck": {
    hint: "A lock file may be left behind in the origin's refs; look for *.lock there.",
    retryable: true,
  },
  "sandbox-failed": {
    hint: "Try the sandbox of agentq.json by hand on that machine; bwrap needs user namespaces.",
  },
  "landers-lost": {
    hint:
      "Look at what the ticket's checks do to the machine; submit again when it is not their doing.",
  },
  "overtaken": {
    hint:
      "Look whether a check of it pushes to the branch, or who pushes past the queue faster than the checks are done; " +
      "then submit again.",
  },
  "lease-lost": {
    hint: "Another lander took over; nothing was published by this one.",
    retryable: true,
  },
  "branch-rewound": {
    hint: "Restore the branch; or, if that was meant, go on with agentq resume --accept-tip OID.",
  },
  "tip-moved": { hint: "Look at the branch again, then accept the tip it has now." },
  "pins-invalid": { hint: "Push a valid agentq.json to the branch; until then nothing lands." },
  "submission-busy": {
    hint: "Wait for that process and submit again, or end it; --again makes a ticket of its own.",
    retryable: true,
  },
  "state-unavailable": {
    hint: "Name a directory that can be written with --state DIR or AGENTQ_STATE.",
  },
  "work-tree-dirty": {
    hint: "Commit or stash them, or name the commit that is meant with --candidate REV.",
  },
  "operation-in-progress": {
    hint: "Finish or abort it first, or name the commit that is meant with --candidate REV.",
  },
  "ticket-unknown": { hint: "See agentq status and agentq log for the tickets there are." },

  // queuefs
  "queue-not-found": {
    hint: "Create it with `agentq queue create NAME`; `agentq queue ls` lists them.",
  },
  "queue-exists": { hint: "Use the queue that is there, or another name." },
  "queue-name-invalid": { hint: "Use a name like jobs or team/jobs; see docs/queues.md." },
  "message-id-invalid": { hint: "Use letters, digits, dots, dashes and underscores." },
  "payload-invalid": { hint: "Pass text without lone surrogates, or bytes." },
  "message-not-found": { hint: "List what is there with `agentq queue failed ls NAME`." },
  "stale-delivery": {
    hint:
      "Someone else settled it, or it was taken back: dequeue again; what the message names was not changed.",
    exit: 1,
  },
  "queue-path-invalid": { hint: "Read or write QUEUE/OPERATION; see docs/queues.md." },
  "backend-unsupported": { hint: "See docs/queues.md for what each backend can do." },
  "backend-missing": {
    hint: "Create a queue there with `agentq queue create NAME`, or correct --backend.",
  },
  "backend-unreachable": {
    hint: "Check that the server runs and that its address is right.",
    retryable: true,
  },
  "backend-outcome-unknown": {
    hint: "The connection broke before the answer came: look at the queue before you repeat it.",
  },
  "backend-denied": { hint: "Check user, password and permissions of the backend." },
  "backend-busy": {
    hint: "Another process held the database too long: try again.",
    retryable: true,
  },
  "backend-full": {
    hint: "Make room (disk, or Redis maxmemory), then try again.",
    retryable: true,
  },
  "backend-corrupt": { hint: "Stop its writers, keep a copy, and restore or repair the database." },
  "backend-error": { hint: "See the message: the backend refused the operation." },
  "wait-timeout": {
    hint: "The queue still holds messages: wait longer, or look who holds them.",
    exit: 3,
  },

  // git: origins
  "remote-unknown": { hint: "Name a remote of this clone, or pass its url." },
  "url-unsupported": {
    hint: "Use a path, user@host:path, or a file://, http(s)://, ssh:// or git:// url.",
  },
  "origin-not-found": { hint: "Check the remote's url, and that you may read the repository." },
  "atomic-unsupported": {
    hint: "The queue needs a server that pushes several refs all or none; see docs/origins.md.",
  },
  "auth-required": {
    hint: "Set AGENTQ_TOKEN, or give git's credential helper, ~/.netrc or the url a credential.",
  },
  "forbidden": { hint: "Ask for the right to do this, or use another credential." },
  "origin-unreachable": { hint: "Check the url and the network, then try again.", retryable: true },
  "origin-timeout": { hint: "The server is slow or stuck: try again later.", retryable: true },
  "host-key-unknown": {
    hint:
      "Check the server's key with its operator, then add it to ~/.ssh/known_hosts (ssh-keyscan) or connect once by hand.",
  },
  "host-key-changed": {
    hint:
      "Ask the server's operator; only if the key was replaced, remove the old with ssh-keygen -R.",
  },
  "ssh-command-missing": {
    hint: "Install git there, or name its programs in remote.<name>.uploadpack and .receivepack.",
  },
  "tls-error": { hint: "Check the certificate; http.sslCAInfo names your own authority's." },
  "server-error": { hint: "The server failed: its operator's log says why.", retryable: true },
  "protocol-error": { hint: "Is a git server behind that url? Try git ls-remote on it." },
  "push-too-large": { hint: "The server limits the size of a request: ask its operator." },

  // merge
  "unrelated-histories": {
    hint: "Merge them by hand with git merge --allow-unrelated-histories, if that is meant.",
  },
} as const satisfies Record<string, ErrorKind>;

/** A stable error code, a key of {@link ERROR_KINDS}. */
export type ErrorCode = keyof typeof ERROR_KINDS;

/** What an {@link AgentqError} can be given besides its code and message. */
export interface AgentqErrorOptions {
  /** Replaces the code's own hint where something more exact is known. */
  hint?: string;
  retryable?: boolean;
  cause?: unknown;
  /** Facts for `--json`: errno, path, ref, commit. Never secrets. */
  details?: Record<string, unknown>;
}

/** What to do about an error of the system; better than looking at a file that is quite in order. */
const ERRNO_HINTS: Readonly<Record<string, string>> = {
  ENOSPC: "The disk is full: free some space and run the command again.",
  EDQUOT: "The disk quota is used up: free some space and run the command again.",
  EROFS: "The file system is read-only: remount it or use another directory.",
  EACCES: "Check who owns the directory and its permissions.",
  EPERM: "Check who owns the directory and its permissions.",
  EMFILE: "Too many open files: raise the limit (ulimit -n) or run fewer commands at once.",
  ENFILE: "The system has too many open files: try again later.",
  ENOTDIR: "A part of that path is a file, not a directory: correct the path.",
  EFBIG:
    "Files may not grow so large there: look at ulimit -f and at the file system's largest file.",
  EBUSY: "Something is mounted there or uses it: unmount it (umount), and run the command again.",
  ELOOP: "Links on that path lead in a circle: correct them, or name another path.",
  ENAMETOOLONG: "Use a shorter path.",
  EIO: "The disk reported an error: check its health before going on.",
};

function hintOfErrno(code: ErrorCode, options: AgentqErrorOptions): string | undefined {
  if (code !== "io-error") return undefined;
  const errno = options.details?.errno ?? (options.cause as { code?: unknown } | null)?.code;
  return typeof errno === "string" ? ERRNO_HINTS[errno] : undefined;
}

/** The error every layer throws: a code, a message that names the thing, a hint what to do. */
export class AgentqError extends Error {
  override readonly name = "AgentqError";
  readonly code: ErrorCode;
  readonly hint: string;
  readonly retryable: boolean;
  readonly details: Record<string, unknown> | undefined;

  constructor(code: ErrorCode, message: string, options: AgentqErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    const kind: ErrorKind = ERROR_KINDS[code];
    this.code = code;
    this.hint = options.hint ?? hintOfErrno(code, options) ?? kind.hint;
    this.retryable = options.retryable ?? kind.retryable ?? false;
    this.details = options.details;
  }

  /** The process exit code that this error stands for; which signal it was, only `cli/` knows. */
  get exitCode(): number {
    const { exit = 2 } = ERROR_KINDS[this.code] as ErrorKind;
    return exit === "signal" ? 130 : exit;
  }

  /** The shape printed by `--json` under `error`. */
  toJSON(): Record<string, unknown> {
    return {
      code: this.code,
      message: this.message,
      hint: this.hint,
      ...(this.retryable ? { retryable: true } : {}),
      ...(this.details ? { details: this.details } : {}),
    };
  }
}

/** True when `error` is an {@link AgentqError} (with one of `codes`, when any are given). */
export function isAgentqError(error: unknown, ...codes: ErrorCode[]): error is AgentqError {
  return error instanceof AgentqError && (codes.length === 0 || codes.includes(error.code));
}
