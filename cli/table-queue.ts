/** The commands of local named queues and of the store. */
import type { CommandSpec } from "./spec.ts";

export const QUEUE_COMMANDS: readonly CommandSpec[] = [];
