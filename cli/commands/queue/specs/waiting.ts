/** What a queue as a whole comes to: counting, waiting, working it off. */
import type { CommandSpec } from "../../../spec.ts";
import { argument, COMMON, from, NAME } from "./parts.ts";

const queues = () => import("../queues.ts");
const wait = () => import("../wait.ts");

export const WAITING_SPECS: readonly CommandSpec[] = [
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
    flags: [...COMMON, {
      name: "all",
      kind: "boolean",
      description: "every queue (at and below NAME), one a line, from one snapshot",
    }],
    examples: ["agentq queue status jobs", "agentq queue status --all"],
    load: from(queues, "status"),
  },
  {
    path: ["queue", "wait"],
    summary: "Return when nothing is unacknowledged",
    details:
      "That is: pending = 0 and processing = 0 in one snapshot. Exit 3 when the time is over, whatever\n" +
      "the backend does. One that was opened and can't be reached for a while is asked again until it answers.",
    arguments: [NAME],
    flags: [...COMMON, {
      name: "timeout",
      kind: "seconds",
      value: "S",
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
      "What the program leaves running when it exits is killed, nohup or not, unless it has a session\n" +
      "of its own: setsid sh -c 'JOB >LOG 2>&1 </dev/null &'.\n" +
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
        description: "end when the queue is complete",
      },
      {
        name: "backoff",
        kind: "seconds",
        value: "S",
        default: "0.2",
        description:
          "pause before the second attempt, half of it at random; doubled each time, a minute at most",
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
    program: true,
    examples: ["agentq queue work jobs --concurrency 4 -- ./handle.sh"],
    load: from(() => import("../work.ts"), "work"),
  },
  {
    path: ["queue", "metrics"],
    summary: "Print queue lengths and what workers have done, as JSON or for Prometheus",
    arguments: [argument("name", "the queue (default: all)", { required: false })],
    flags: [...COMMON, {
      name: "prometheus",
      kind: "boolean",
      description: "the Prometheus text format",
    }],
    examples: ["agentq queue metrics --prometheus"],
    load: from(() => import("../metrics.ts"), "metrics"),
  },
];
