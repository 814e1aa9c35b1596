/**
 * Settings in the environment that are meant for one run: how many messages it takes, what it may drop, when it
 * ends. A lander or worker that was started with them doesn't pass them on: agentq runs inside the programs it
 * starts would count, drop and end alike without anybody having asked them to.
 */

const OF_ONE_RUN = [
  "AGENTQ_AGAIN",
  "AGENTQ_ALL",
  "AGENTQ_ALLOW_OPEN_MODES",
  "AGENTQ_COUNT",
  "AGENTQ_CREATE_BRANCH",
  "AGENTQ_DROP",
  "AGENTQ_KEEP",
  "AGENTQ_LEASE",
  "AGENTQ_LINES",
  "AGENTQ_MAX",
  "AGENTQ_NUMBER",
  "AGENTQ_OLDER_THAN",
  "AGENTQ_PROMETHEUS",
  "AGENTQ_READ_ONLY",
  "AGENTQ_REASON",
  "AGENTQ_RECEIPT",
  "AGENTQ_STALE",
  "AGENTQ_TIMEOUT",
  "AGENTQ_UNTIL_EMPTY",
  "AGENTQ_WATCH",
] as const;

/** Their names. */
export const RUN_SETTINGS: readonly string[] = OF_ONE_RUN;

/** What takes those that are set out of the environment of a program: name → undefined. */
export function withoutRunSettings(): Record<string, undefined> {
  const set = RUN_SETTINGS.filter((name) => process.env[name] !== undefined);
  return Object.fromEntries(set.map((name) => [name, undefined]));
}
