/** Every command, in the order `--help` lists them. Code is loaded only for the one that runs. */
import type { CommandSpec } from "./spec.ts";
import { LANDING_COMMANDS } from "./table-landing.ts";
import { QUEUE_COMMANDS } from "./table-queue.ts";
import { STORE_COMMANDS } from "./table-store.ts";

const OTHER_COMMANDS: readonly CommandSpec[] = [
  {
    path: ["merge-tree"],
    summary: "Show the merge a landing would make, without writing to any ref",
    details:
      "Prints the verdict, the merged tree and the conflicts of two commits. With --stdin, reads one\n" +
      "`OURS THEIRS` a line and answers each with one JSON document, in order.\n" +
      'A path that isn\'t UTF-8, or begins with a double quote, is quoted as git quotes it: "\\377\\376".\n' +
      "Exit 0 clean, 1 conflicts, 2 failure (with --stdin: 0 if every line was answered).",
    arguments: [
      { name: "ours", description: "the commit to merge into", required: false },
      { name: "theirs", description: "the commit to merge", required: false },
    ],
    flags: [{
      name: "stdin",
      kind: "boolean",
      argvOnly: true,
      description: "read pairs from stdin",
    }],
    examples: ["agentq merge-tree origin/main HEAD --json"],
    load: () => import("./commands/merge-tree.ts"),
  },
  {
    path: ["demo"],
    summary: "Land three agents' work on a throwaway origin and print what happened",
    flags: [
      { name: "keep", kind: "boolean", description: "keep the demo's directory" },
    ],
    examples: ["agentq demo"],
    load: () => import("./commands/demo.ts"),
  },
  {
    path: ["schema"],
    summary: "Print the JSON schema of a --json document, or the names of all",
    arguments: [{ name: "name", description: "agentq.status/1 and the like", required: false }],
    examples: ["agentq schema agentq.status/1"],
    load: () => import("./commands/schema.ts"),
  },
  {
    path: ["completions"],
    summary: "Print a completion script for bash, zsh or fish",
    arguments: [{ name: "shell", description: "bash, zsh or fish", required: true }],
    examples: ["agentq completions bash > /etc/bash_completion.d/agentq"],
    load: () => import("./commands/completions.ts"),
  },
];

export const COMMANDS: readonly CommandSpec[] = [
  ...LANDING_COMMANDS,
  ...QUEUE_COMMANDS,
  ...STORE_COMMANDS,
  ...OTHER_COMMANDS,
];
