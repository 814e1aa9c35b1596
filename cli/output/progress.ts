/** Progress on stderr: one updating line on a terminal, plain lines otherwise, nothing when quiet. */
import { escapeLine } from "./escape.ts";
import { writeErr } from "./write.ts";

export interface Progress {
  /** Says what is going on now; replaces the line before it on a terminal. */
  update(text: string): void;
  /** A line that stays. */
  line(text: string): void;
  /** Text of another program (a verify command's output), passed on line by line, escaped. */
  stream(text: string): void;
  /** Removes the updating line, before something else is printed. */
  clear(): void;
}

const SILENT: Progress = { update() {}, line() {}, stream() {}, clear() {} };

/** Creates the progress reporter for this run. */
export function createProgress(quiet: boolean, escape: (text: string) => string): Progress {
  if (quiet) return SILENT;
  // Asked when something is said: making the stream that knows costs a run that is silent.
  let isTerminal: boolean | undefined;
  let shown = false;
  let last = "";
  /** Another program's text ended within a line. */
  let open = false;
  const clear = () => {
    if (shown) {
      writeErr("\r\x1b[K");
      last = ""; // It may be shown again.
    }
    if (open) writeErr("\n");
    shown = open = false;
  };
  return {
    update(text) {
      if (text === last) return;
      last = text;
      isTerminal ??= process.stderr.isTTY === true;
      if (open) clear();
      if (!isTerminal) return writeErr(`${escapeLine(text)}\n`);
      const width = Math.max(20, (process.stderr.columns ?? 80) - 1);
      writeErr(`\r\x1b[K${escapeLine(text).slice(0, width)}`);
      shown = true;
    },
    line(text) {
      clear();
      writeErr(`${escapeLine(text)}\n`);
    },
    stream(text) {
      if (text === "") return;
      if (shown) clear();
      writeErr(escape(text));
      open = !text.endsWith("\n");
    },
    clear,
  };
}
