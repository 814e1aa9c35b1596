/** The commands of the v2 store itself. */
import type { CommandSpec, FlagSpec } from "./spec.ts";

const STORE: FlagSpec = {
  name: "store",
  kind: "path",
  value: "DIR",
  description: "the store (default: the one under the state directory)",
};

export const STORE_COMMANDS: readonly CommandSpec[] = [
  {
    path: ["store", "init"],
    summary: "Create a store",
    details:
      "Exclusive: an existing store, a v1 queue or the remains of an interrupted initialisation are\n" +
      "never adopted or removed.",
    flags: [
      STORE,
      {
        name: "allow-open-modes",
        kind: "boolean",
        description: "for file systems that can't keep permissions (exFAT, some FUSE mounts)",
      },
      {
        name: "resume-after-inspection",
        kind: "boolean",
        argvOnly: true,
        description: "move the remains of an interrupted initialisation aside and start anew",
      },
    ],
    examples: ["agentq store init --store /var/lib/jobs"],
    load: async () => (await import("./commands/store.ts")).init,
  },
  {
    path: ["store", "check"],
    summary: "Audit a store without changing anything",
    details: "Exit 0 sound, 1 with findings of level error, 2 when it can't be read at all.",
    flags: [STORE],
    examples: ["agentq store check --json"],
    load: async () => (await import("./commands/store.ts")).check,
  },
  {
    path: ["store", "unlock"],
    summary: "Remove a lock whose owner is proved gone",
    details:
      "Proof is the kernel's: same boot, same pid namespace, and no process with that pid and start\n" +
      "time. What can't be proved is removed only by name, on your word.",
    flags: [
      STORE,
      {
        name: "owner-token",
        kind: "text",
        value: "TOKEN",
        argvOnly: true,
        description: "remove the lock with this owner token without proof",
      },
      {
        name: "i-have-checked",
        kind: "boolean",
        argvOnly: true,
        description: "your word that no process uses the store any more",
      },
    ],
    examples: [
      "agentq store unlock",
      "agentq store unlock --owner-token 0123456789abcdef0123456789abcdef --i-have-checked",
    ],
    load: async () => (await import("./commands/store.ts")).unlock,
  },
  {
    path: ["store", "gc"],
    summary: "Remove what no message refers to",
    flags: [STORE],
    examples: ["agentq store gc"],
    load: async () => (await import("./commands/store.ts")).gc,
  },
];
