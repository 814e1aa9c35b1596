/** Dead letters, and the control paths. */
import type { CommandSpec } from "../../../spec.ts";
import { ALL, argument, COMMON, DATA, from, LEASE, LETTERS, NAME, OWNER } from "./parts.ts";

const failed = () => import("../failed.ts");
const fs = () => import("../fs.ts");

export const FAILED_SPECS: readonly CommandSpec[] = [
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
