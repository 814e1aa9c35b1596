/** The commands of the landing queue. */
import type { CommandSpec, FlagSpec } from "./spec.ts";

const WAIT_FLAGS: readonly FlagSpec[] = [
  {
    name: "wait-timeout",
    kind: "seconds",
    value: "S",
    default: "3600",
    description: "stop waiting after S seconds (exit 3, the ticket stays queued)",
  },
];

const LANDER_FLAGS: readonly FlagSpec[] = [
  {
    name: "lease-ttl",
    kind: "seconds",
    value: "S",
    default: "120",
    min: 0.1,
    description: "take over a lock that has not moved for S seconds",
  },
  {
    name: "poll",
    kind: "seconds",
    value: "S",
    default: "1",
    min: 0.01,
    description: "read the origin every S seconds while waiting",
  },
  {
    name: "no-ticket-commands",
    kind: "boolean",
    description:
      "never run a ticket's own verify command here; leave such tickets to other landers",
  },
];

const TICKET = { name: "ticket", description: "the ticket's number", required: true } as const;

export const LANDING_COMMANDS: readonly CommandSpec[] = [
  {
    path: ["submit"],
    brief: true,
    summary: "Queue a commit and wait until it is landed or refused",
    strayHint:
      "Name the commit with --candidate REV, and the branch to land on with --branch NAME.",
    details:
      "While it waits it lands what is queued, its own ticket included: the queue keeps moving as long\n" +
      "as any submitter is alive. Exit 0 landed (or queued, with --no-wait), 1 refused, 2 the run failed,\n" +
      "3 still queued when the wait timed out, 64 usage. The wait begins when the ticket is queued, and no\n" +
      "push is cut off by its end: an origin that falls silent in one is given up after 120 s.",
    flags: [
      {
        name: "candidate",
        kind: "text",
        value: "REV",
        description: "the commit to land (default: HEAD)",
      },
      {
        name: "verify-cmd",
        kind: "text",
        value: "CMD",
        description: "run with sh -c on the merged tree; it lands only if this exits 0",
      },
      {
        name: "verify-timeout",
        kind: "seconds",
        value: "S",
        default: "1800",
        min: 0.001,
        description: "kill the verify command after S seconds",
      },
      ...WAIT_FLAGS,
      ...LANDER_FLAGS,
      {
        name: "attempts",
        kind: "integer",
        value: "N",
        default: "3",
        min: 1,
        description: "tries of a step that failed for a passing reason, before giving up",
      },
      { name: "title", kind: "text", value: "T", description: "the merge's subject line" },
      {
        name: "drop",
        kind: "text",
        value: "PATH…",
        multiple: true,
        description: "paths (globs allowed) whose loss is meant: the gate lets them pass",
      },
      { name: "no-wait", kind: "boolean", description: "queue it and return" },
      {
        name: "offline",
        kind: "boolean",
        description:
          "when the origin can't be reached, keep it here for later (exit 3 unless --no-wait)",
      },
      {
        name: "create-branch",
        kind: "boolean",
        description: "begin the branch with this commit where the origin doesn't have it",
      },
      {
        name: "again",
        kind: "boolean",
        description:
          "queue a new ticket even if this commit has one outstanding from this clone and its worktrees",
      },
    ],
    examples: [
      'agentq submit --verify-cmd "npm test"',
      "agentq submit --candidate feat/login --no-wait --json",
    ],
    load: () => import("./commands/submit.ts"),
  },
  {
    path: ["status"],
    brief: true,
    summary: "The queue now, from one snapshot, and this machine's own submissions",
    flags: [
      {
        name: "limit",
        kind: "integer",
        value: "N",
        default: "100",
        min: 0,
        description: "list at most N tickets, oldest first",
      },
    ],
    examples: ["agentq status", "agentq status --json --remote https://host/repo.git"],
    load: () => import("./commands/status.ts"),
  },
  {
    path: ["wait"],
    brief: true,
    summary: "Wait for one ticket, landing meanwhile",
    arguments: [TICKET],
    flags: [...WAIT_FLAGS, ...LANDER_FLAGS],
    examples: ["agentq wait 7 --wait-timeout 600 --json"],
    load: () => import("./commands/wait.ts"),
  },
  {
    path: ["land"],
    summary: "Land what is queued, then stop (or keep going)",
    flags: [
      { name: "watch", kind: "boolean", description: "keep landing until stopped" },
      {
        name: "max",
        kind: "integer",
        value: "N",
        min: 1,
        description: "stop after N tickets",
      },
      ...LANDER_FLAGS,
    ],
    examples: ["agentq land", "agentq land --watch --json"],
    load: () => import("./commands/land.ts"),
  },
  {
    path: ["log"],
    brief: true,
    summary: "Results, newest first; with --json one document a line",
    flags: [
      {
        name: "number",
        kind: "integer",
        value: "N",
        short: "n",
        default: "20",
        min: 0,
        description: "print at most N results",
      },
    ],
    examples: ["agentq log -n 5"],
    load: () => import("./commands/log.ts"),
  },
  {
    path: ["show"],
    brief: true,
    summary: "One ticket and its result, whole",
    arguments: [TICKET],
    examples: ["agentq show 7 --json"],
    load: () => import("./commands/show.ts"),
  },
  {
    path: ["cancel"],
    brief: true,
    summary: "Cancel a ticket: it never lands afterwards",
    arguments: [TICKET],
    examples: ["agentq cancel 7"],
    load: () => import("./commands/cancel.ts"),
  },
  {
    path: ["pause"],
    brief: true,
    summary: "Stop landing; submissions are still accepted and wait",
    flags: [
      {
        name: "reason",
        kind: "text",
        value: "R",
        description: "shown by status to everyone",
      },
    ],
    examples: ['agentq pause --reason "release in progress"'],
    load: () => import("./commands/pause.ts"),
  },
  {
    path: ["resume"],
    brief: true,
    summary: "Lift a pause, or accept a branch that was rewound",
    flags: [
      {
        name: "accept-tip",
        kind: "text",
        value: "OID",
        argvOnly: true,
        description: "go on from this tip although it lacks the last landed commit",
      },
    ],
    examples: ["agentq resume", "agentq resume --accept-tip 1f3c…"],
    load: () => import("./commands/resume.ts"),
  },
  {
    path: ["flush"],
    brief: true,
    summary: "Deliver submissions kept while the origin was out of reach",
    flags: [
      {
        name: "drop",
        kind: "text",
        value: "ID",
        argvOnly: true,
        description:
          "take the submission ID back instead (as status --json or flush --json names it), if it has no ticket",
      },
    ],
    examples: ["agentq flush", "agentq flush --drop 962f3c431c64b6bce74415734a0dbb42"],
    load: () => import("./commands/flush.ts"),
  },
  {
    path: ["doctor"],
    summary: "What this machine and this origin can do, and what to do about the rest",
    details:
      "Each check is ok, warn, fail or skip, with what to do about it; exit 1 when one fails. What would stop\n" +
      "submit or land is told in their words: a clone or state that can't be read, a branch that isn't there or\n" +
      "lost what was landed, an agentq.json that can't be obeyed, lock files left in an origin on disk.\n" +
      'To see whether the origin lets us write the queue\'s refs, one entry that says "free" is appended to a\n' +
      "free lock, where the branch or its queue exists. A sandbox is looked for, and not run.",
    flags: [
      {
        name: "read-only",
        kind: "boolean",
        description: "push nothing to the origin",
      },
    ],
    withoutClone: true,
    examples: ["agentq doctor", "agentq doctor --json"],
    load: () => import("./commands/doctor.ts"),
  },
];
