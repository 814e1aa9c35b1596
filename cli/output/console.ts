/**
 * What libraries say on the console. It would stand among this program's own words, and not by their
 * rules: one document with `--json`, nothing with `--quiet`, everything escaped.
 */
import { escapeLine } from "./escape.ts";
import { writeErr } from "./write.ts";

/** From here on the console's words are dropped, or with `--verbose` a line on stderr each. */
export function takeConsole(verbose: boolean): void {
  const say = (...words: unknown[]) => {
    if (verbose) writeErr(`${escapeLine(words.map(String).join(" "))}\n`);
  };
  for (const name of ["debug", "error", "info", "log", "trace", "warn"] as const) {
    console[name] = say;
  }
}
