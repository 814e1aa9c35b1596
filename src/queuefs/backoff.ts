/** How long to wait before a message that failed is tried again. */
export interface Backoff {
  /** Wait after the first failure, in milliseconds; doubled after each further one. */
  readonly baseMs: number;
  readonly maxMs: number;
}

export const DEFAULT_BACKOFF: Backoff = { baseMs: 200, maxMs: 30_000 };

/** The wait after `failures` failures (1 or more): half of it fixed, half of it random. */
export function backoffMs(failures: number, backoff: Backoff, random = Math.random()): number {
  const full = Math.min(backoff.maxMs, backoff.baseMs * 2 ** Math.min(failures - 1, 30));
  return Math.round(full / 2 + full / 2 * random);
}
