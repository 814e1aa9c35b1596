/** How a scenario is declared: node:test under Bun stops a test after 5 s unless told otherwise. */
import process from "node:process";
import { test } from "node:test";

/** Seconds a scenario may take before the runner gives it up for hung. */
const LIMIT_SECONDS = process.env.AGENTQ_SOAK ? 3600 : 150;

/** A named scenario with the time limit that all of them share. */
export function scenario(name: string, body: () => Promise<void> | void): void {
  test(name, { timeout: LIMIT_SECONDS * 1000 }, async () => {
    await body();
  });
}

/** Polls `condition` until it gives something other than undefined/false, or fails naming `what`. */
export async function until<T>(
  what: string,
  condition: () => T | undefined | false | Promise<T | undefined | false>,
  seconds = 60,
): Promise<T> {
  const end = performance.now() + seconds * 1000;
  for (;;) {
    const value = await condition();
    if (value !== undefined && value !== false) return value;
    if (performance.now() > end) throw new Error(`waited ${seconds} s for ${what}`);
    await sleep(20);
  }
}

/** Resolves after `ms` milliseconds. */
export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
