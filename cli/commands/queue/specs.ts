/** The queue commands' words, arguments and flags; each loads its code when it runs. */
import type { ArgumentSpec, CommandModule, CommandSpec, FlagSpec } from "../../spec.ts";

/** Loads a module and runs one of its functions. */
const from = <M extends Record<K, CommandModule["run"]>, K extends string>(
  load: () => Promise<M>,
  name: K,
) =>
async (): Promise<CommandModule> => ({ run: (await load())[name] });

const queues = () => import("./queues.ts");
const messages = () => import("./messages.ts");
const failed = () => import("./failed.ts");
const wait = () => import("./wait.ts");
const fs = () => import("./fs.ts");

const BACKEND: FlagSpec = {
  name: "backend",
  kind: "text",
  value: "URL",
  description:
    "store:DIR, sqlite:FILE, v1:DIR, redis://… or rediss://… (default: the store under the state directory)",
};
const RECOVER_STALE: FlagSpec = {
  name: "recover-stale",
  kind: "boolean",
  description: "prove the owner of a stale store lock gone, and go on",
};
const COMMON = [BACKEND, RECOVER_STALE];
const OWNER: FlagSpec = {
  name: "owner",
  kind: "text",
  value: "NAME",
  default: "cli",
  description: "in whose name messages are taken and settled: one for each agent",
};
const LEASE: FlagSpec = {
  name: "lease",
  kind: "seconds",
  value: "S",
  default: "300",
  argvOnly: true,
  description: "recover may take the messages back after S seconds",
};
const RECEIPT_LEASE: FlagSpec = {
  name: "lease",
  kind: "text",
  value: "LEASE",
  argvOnly: true,
  description: "the delivery that dequeue --receipt printed (default: the owner's last)",
};
const ALL = (description: string): FlagSpec => ({
  name: "all",
  kind: "boolean",
  argvOnly: true,
  description,
});
const argument = (name: string, description: string, more: Partial<ArgumentSpec> = {}) => ({
  name,
  description,
  required: true,
  ...more,
});
const NAME = argument("name", "the queue, such as jobs or team/jobs");
const IDS = argument("id", "message ids", { variadic: true });
const DATA = argument("data", "the message; - or nothing: standard input", { required: false });
const LETTERS = argument("failed", "dead letters", { required: false, variadic: true });

export const QUEUE_SPECS: readonly CommandSpec[] = [
  {
    path: ["queue", "create"],
    summary: "Create a queue, and the store or database where there is none yet",
    arguments: [NAME],
    flags: COMMON,
    examples: ["agentq queue create jobs", "agentq queue create jobs --backend sqlite:queue.db"],
    load: from(queues, "create"),
  },
  {
    path: ["queue", "ls"],
    summary: "List queues",
    arguments: [argument("prefix", "only this queue and those below", { required: false })],
    flags: COMMON,
    examples: ["agentq queue ls team"],
    load: from(queues, "ls"),
  },
  {
    path: ["queue", "rm"],
    summary: "Remove a queue, the queues below it, their messages and dead letters",
    arguments: [NAME],
    flags: COMMON,
    examples: ["agentq queue rm team/old"],
    load: from(queues, "rm"),
  },
  {
    path: ["queue", "enqueue"],
    summary: "Add a message and print its id",
    details:
      "An id that is still pending is replaced. An id that is being processed gets a newer\n" +
      "generation, which waits until the older one is settled.",
    arguments: [NAME, DATA],
    flags: [
      ...COMMON,
      { name: "id", kind: "text", value: "ID", argvOnly: true, description: "the message's id" },
      {
        name: "lines",
        kind: "boolean",
        argvOnly: true,
        description: "every line of the input is a message of its own, all in one transaction",
      },
    ],
    examples: [
      "agentq queue enqueue jobs 'resize a.png'",
      "agentq queue enqueue jobs - < job.json",
    ],
    load: from(messages, "enqueue"),
  },
  {
    path: ["queue", "dequeue"],
    summary: "Take the next message: it stays unacknowledged until ack",
    details:
      'Prints {"id","data"}, one a line, and {} when there is nothing. Bytes that aren\'t\n' +
      "UTF-8 are in data_base64, and data is null.",
    arguments: [NAME],
    flags: [
      ...COMMON,
      OWNER,
      LEASE,
      {
        name: "count",
        kind: "integer",
        value: "N",
        min: 1,
        default: "1",
        argvOnly: true,
        description: "take up to N messages in one transaction",
      },
      {
        name: "receipt",
        kind: "boolean",
        argvOnly: true,
        description: "print the lease and the attempts too",
      },
    ],
    examples: ["agentq queue dequeue jobs", "agentq queue dequeue jobs --count 10 --lease 60"],
    load: from(messages, "dequeue"),
  },
  {
    path: ["queue", "ack"],
    summary: "Acknowledge messages: they are done and removed",
    arguments: [NAME, IDS],
    flags: [...COMMON, OWNER, RECEIPT_LEASE],
    examples: ["agentq queue ack jobs 3f0c…"],
    load: from(messages, "ack"),
  },
  {
    path: ["queue", "requeue"],
    summary: "Put messages back, at the end of the queue, counting the attempt",
    arguments: [NAME, IDS],
    flags: [...COMMON, OWNER, RECEIPT_LEASE],
    examples: ["agentq queue requeue jobs 3f0c…"],
    load: from(messages, "requeue"),
  },
  {
    path: ["queue", "fail"],
    summary: "Move a message to the dead letters",
    arguments: [NAME, argument("id", "the message's id")],
    flags: [...COMMON, OWNER, RECEIPT_LEASE, {
      name: "reason",
      kind: "text",
      value: "R",
      argvOnly: true,
      description: "why, for whoever looks at it",
    }],
    examples: ["agentq queue fail jobs 3f0c… --reason 'no such file'"],
    load: from(messages, "fail"),
  },
  {
    path: ["queue", "peek"],
    summary: "Show the next message without taking it",
    arguments: [NAME],
    flags: COMMON,
    examples: ["agentq queue peek jobs"],
    load: from(messages, "peek"),
  },
  {
    path: ["queue", "messages"],
    summary: "List every unacknowledged message without changing anything",
    arguments: [NAME],
    flags: COMMON,
    examples: ["agentq queue messages jobs"],
    load: from(messages, "messages"),
  },
  {
    path: ["queue", "size"],
    summary: "Print how many messages are pending",
    arguments: [NAME],
    flags: COMMON,
    examples: ["agentq queue size jobs"],
    load: from(queues, "size"),
  },
  {
    path: ["queue", "status"],
    summary: "Print pending, processing and unacked, from one snapshot",
    arguments: [argument("name", "the queue", { required: false })],
    flags: [...COMMON, ALL("every queue (at and below NAME), one a line, from one snapshot")],
    examples: ["agentq queue status jobs", "agentq queue status --all"],
    load: from(queues, "status"),
  },
  {
    path: ["queue", "wait"],
    summary: "Return when nothing is unacknowledged",
    details:
      "That is: pending = 0 and processing = 0 in one snapshot. Exit 3 when the time is over.",
    arguments: [NAME],
    flags: [...COMMON, {
      name: "timeout",
      kind: "seconds",
      value: "S",
      argvOnly: true,
      description: "give up after S seconds (default: never)",
    }],
    examples: ["agentq queue wait jobs --timeout 600"],
    load: from(wait, "wait"),
  },
  {
    path: ["queue", "recover"],
    summary: "Take back messages whose worker is gone or whose lease has run out",
    details: "Never those of a worker that is alive and renews its leases. Prints how many.",
    arguments: [NAME],
    flags: [...COMMON, {
      name: "stale",
      kind: "seconds",
      value: "S",
      argvOnly: true,
      description: "messages that a command or another program took: after S seconds already",
    }],
    examples: ["agentq queue recover jobs", "agentq queue recover jobs --stale 60"],
    load: from(wait, "recover"),
  },
  {
    path: ["queue", "clear"],
    summary: "Remove every unacknowledged message, those being processed too",
    arguments: [NAME],
    flags: COMMON,
    examples: ["agentq queue clear jobs"],
    load: from(queues, "clear"),
  },
  {
    path: ["queue", "work"],
    summary: "Run a program for each message, payload on its standard input",
    details:
      "Exit 0 acknowledges the message. Anything else puts it back after a pause, and after\n" +
      "--max-attempts it goes to the dead letters. Several workers may share a queue, on several\n" +
      "machines too with Redis. The first SIGINT or SIGTERM finishes what runs; a second ends at once.\n" +
      "The program finds AGENTQ_QUEUE, AGENTQ_MESSAGE_ID and AGENTQ_ATTEMPT in its environment.",
    arguments: [NAME, argument("cmd", "the program and its arguments", { variadic: true })],
    flags: [
      ...COMMON,
      {
        name: "concurrency",
        kind: "integer",
        value: "N",
        min: 1,
        default: "1",
        description: "so many programs at once",
      },
      {
        name: "max-attempts",
        kind: "integer",
        value: "N",
        min: 1,
        default: "5",
        description: "give a message up after N attempts",
      },
      {
        name: "until-empty",
        kind: "boolean",
        argvOnly: true,
        description: "end when the queue is complete",
      },
      {
        name: "backoff",
        kind: "seconds",
        value: "S",
        default: "0.2",
        description: "pause before the second attempt; doubled each time, a minute at most",
      },
      {
        name: "job-timeout",
        kind: "seconds",
        value: "S",
        min: 0.001,
        description: "kill a program that runs longer; that counts as a failure",
      },
      {
        name: "lease",
        kind: "seconds",
        value: "S",
        min: 1,
        default: "30",
        argvOnly: true,
        description: "others may take the messages of a stuck worker after S seconds",
      },
      {
        name: "grace",
        kind: "seconds",
        value: "S",
        default: "10",
        description: "when stopped, let programs run for S more seconds",
      },
    ],
    examples: ["agentq queue work jobs --concurrency 4 -- ./handle.sh"],
    load: from(() => import("./work.ts"), "work"),
  },
  {
    path: ["queue", "metrics"],
    summary: "Print queue lengths and what workers have done, as JSON or for Prometheus",
    arguments: [argument("name", "the queue (default: all)", { required: false })],
    flags: [...COMMON, {
      name: "prometheus",
      kind: "boolean",
      argvOnly: true,
      description: "the Prometheus text format",
    }],
    examples: ["agentq queue metrics --prometheus"],
    load: from(() => import("./metrics.ts"), "metrics"),
  },
  {
    path: ["queue", "failed", "ls"],
    summary: "List dead letters with their reasons",
    arguments: [argument("name", "the queue (default: all)", { required: false })],
    flags: COMMON,
    examples: ["agentq queue failed ls jobs"],
    load: from(failed, "ls"),
  },
  {
    path: ["queue", "failed", "show"],
    summary: "Show one dead letter whole",
    arguments: [NAME, argument("failed", "the dead letter")],
    flags: COMMON,
    examples: ["agentq queue failed show jobs 3f0c…"],
    load: from(failed, "show"),
  },
  {
    path: ["queue", "failed", "retry"],
    summary: "Make dead letters pending again, with no attempts counted",
    arguments: [NAME, LETTERS],
    flags: [...COMMON, ALL("every dead letter of the queue")],
    examples: ["agentq queue failed retry jobs --all"],
    load: from(failed, "retry"),
  },
  {
    path: ["queue", "failed", "prune"],
    summary: "Remove dead letters for good: those named, or all",
    arguments: [NAME, LETTERS],
    flags: [...COMMON, {
      name: "older-than",
      kind: "seconds",
      value: "S",
      argvOnly: true,
      description: "only those that failed more than S seconds ago",
    }],
    examples: ["agentq queue failed prune jobs --older-than 604800"],
    load: from(failed, "prune"),
  },
  {
    path: ["queue", "fs", "read"],
    summary: "Read a control path: dequeue, peek, size, status or messages",
    arguments: [argument("path", "such as jobs/dequeue")],
    flags: [...COMMON, OWNER, LEASE],
    examples: ["agentq queue fs read jobs/status"],
    load: from(fs, "read"),
  },
  {
    path: ["queue", "fs", "write"],
    summary: "Write a control path: enqueue, ack or clear",
    arguments: [argument("path", "such as jobs/enqueue"), DATA],
    flags: [...COMMON, OWNER],
    examples: ["agentq queue fs write jobs/enqueue 'resize a.png'"],
    load: from(fs, "write"),
  },
  {
    path: ["queue", "fs", "ls"],
    summary: "List queues and control files below a path",
    arguments: [argument("path", "a queue (default: all)", { required: false })],
    flags: COMMON,
    examples: ["agentq queue fs ls /jobs"],
    load: from(fs, "ls"),
  },
];
