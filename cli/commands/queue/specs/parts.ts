/** Arguments and flags that several queue commands have. */
import type { ArgumentSpec, CommandModule, FlagSpec } from "../../../spec.ts";

/** Loads a module and runs one of its functions. */
export const from = <M extends Record<K, CommandModule["run"]>, K extends string>(
  load: () => Promise<M>,
  name: K,
) =>
async (): Promise<CommandModule> => ({ run: (await load())[name] });

const BACKEND: FlagSpec = {
  name: "backend",
  kind: "text",
  value: "URL",
  description:
    "store:DIR, sqlite:FILE, v1:DIR, redis://… or rediss://… (default: the store under the state directory)",
};
export const COMMON = [BACKEND];
export const OWNER: FlagSpec = {
  name: "owner",
  kind: "text",
  value: "NAME",
  default: "cli",
  description: "in whose name messages are taken and settled: one for each agent",
};
export const LEASE: FlagSpec = {
  name: "lease",
  kind: "seconds",
  value: "S",
  default: "300",
  description: "recover may take the messages back after S seconds",
};
export const RECEIPT_LEASE: FlagSpec = {
  name: "lease",
  kind: "text",
  value: "LEASE",
  argvOnly: true,
  description: "the delivery that dequeue --receipt printed (default: the owner's last)",
};
export const ALL = (description: string): FlagSpec => ({
  name: "all",
  kind: "boolean",
  argvOnly: true,
  description,
});
export const argument = (name: string, description: string, more: Partial<ArgumentSpec> = {}) => ({
  name,
  description,
  required: true,
  ...more,
});
export const NAME = argument("name", "the queue, such as jobs or team/jobs");
export const IDS = argument("id", "message ids", { variadic: true });
export const DATA = argument("data", "the message; - or nothing: standard input", {
  required: false,
});
export const LETTERS = argument("failed", "dead letters", { required: false, variadic: true });
