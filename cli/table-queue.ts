/** The commands of local named queues and of the store. */
import { QUEUE_SPECS } from "./commands/queue/specs.ts";
import type { CommandSpec } from "./spec.ts";

export const QUEUE_COMMANDS: readonly CommandSpec[] = [...QUEUE_SPECS];
