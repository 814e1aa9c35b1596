/** Queues, and the messages in them. */
import type { CommandSpec } from "../../../spec.ts";
import { argument, COMMON, DATA, from, IDS, LEASE, NAME, OWNER, RECEIPT_LEASE } from "./parts.ts";

const queues = () => import("../queues.ts");
const messages = () => import("../messages.ts");

export const MESSAGE_SPECS: readonly CommandSpec[] = [
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
        description: "take up to N messages in one transaction",
      },
      {
        name: "receipt",
        kind: "boolean",
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
];
