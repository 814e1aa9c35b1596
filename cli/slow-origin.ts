/** Says that an origin is waited for, where it takes its time: a silence looks like a hang. */
import type { Origin } from "../src/git/types.ts";

/** After so long it is said first, and then each so long, in milliseconds. */
const FIRST_MS = 10_000;
const EACH_MS = 30_000;

/** The same origin; `say` hears of each question that it doesn't answer for a while, what for and since when. */
export function tellingOfWaits(
  origin: Origin,
  say: (text: string) => void,
  { first = FIRST_MS, each = EACH_MS }: { readonly first?: number; readonly each?: number } = {},
): Origin {
  const told =
    <Args extends unknown[], T>(what: string, ask: (...args: Args) => Promise<T>) =>
    async (...args: Args): Promise<T> => {
      let passed = first;
      let timer = setTimeout(tell, first);
      function tell() {
        say(`${what} ${origin.url}: ${passed / 1000} s by now`);
        passed += each;
        timer = setTimeout(tell, each);
      }
      try {
        return await ask(...args);
      } finally {
        clearTimeout(timer);
      }
    };
  return {
    ...origin,
    refs: told("waiting for", origin.refs),
    readCommits: told("waiting for", origin.readCommits),
    fetch: told("fetching from", origin.fetch),
    push: told("pushing to", origin.push),
  };
}
