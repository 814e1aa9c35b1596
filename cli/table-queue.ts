/** The commands of local named queues: words, arguments and flags; each loads its code when it runs. */
import { FAILED_SPECS } from "./commands/queue/specs/failed.ts";
import { MESSAGE_SPECS } from "./commands/queue/specs/messages.ts";
import { WAITING_SPECS } from "./commands/queue/specs/waiting.ts";
import type { CommandSpec } from "./spec.ts";

export const QUEUE_COMMANDS: readonly CommandSpec[] = [
  ...MESSAGE_SPECS,
  ...WAITING_SPECS,
  ...FAILED_SPECS,
];
