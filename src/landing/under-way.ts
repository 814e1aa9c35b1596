/** What this process is at, for its own other parts; alone in a file, as every command loads it. */

/** Submissions that this process has made and is pushing at this moment, by their ids. */
export const pushing = new Set<string>();

/** Earlier submissions that it is delivering at this moment. */
export const delivering = new Set<string>();

/** The submission of which nobody could say, were the process ended now, whether it has a ticket. */
export function submissionInDoubt(): string | null {
  return [...pushing, ...delivering][0] ?? null;
}
