/** Progress on stderr: one updating line on a terminal, plain lines otherwise, nothing but warnings when quiet. */
import { escapeLine } from "./escape.ts";
import { writeErr } from "./write.ts";

export interface Progress {
  /** Says what is going on now; replaces the line before it on a terminal. */
  update(text: string): void;
  /**
   * Says what is waited for, which goes before what `update` says; null: that is over. Told again and again, it is said
   * once until there is something else to say.
   */
  waiting(text: string | null): void;
  /** A line that stays. */
  line(text: string): void;
  /** Something that is amiss and no error of this run: said when quiet, too. */
  warn(text: string): void;
  /** Text of another program (a verify command's output), passed on line by line, escaped. */
  stream(text: string): void;
  /** Removes the updating line, before something else is printed. */
  clear(): void;
}

const SILENT: Progress = {
  update() {},
  waiting() {},
  line() {},
  warn: (text) => writeErr(`warning: ${escapeLine(text)}\n`),
  stream() {},
  clear() {},
};

/** Creates the progress reporter for this run. */
export function createProgress(quiet: boolean, escape: (text: string) => string): Progress {
  if (quiet) return SILENT;
  // Asked when something is said: making the stream that knows costs a run that is silent.
  let isTerminal: boolean | undefined;
  let shown = false;
  let last = "";
  let waits = false;
  /** The last line that told of waiting, where there is no updating line. */
  let told = "";
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
  const knowsTerminal = () => isTerminal ??= process.stderr.isTTY === true;
  /** Something else was said: waiting that begins after it is news. */
  const news = () => {
    if (!waits) told = "";
  };
  const show = (text: string) => {
    if (text === last) return;
    last = text;
    if (open) clear();
    const width = Math.max(20, (process.stderr.columns ?? 80) - 1);
    writeErr(`\r\x1b[K${escapeLine(text).slice(0, width)}`);
    shown = true;
  };
  const say = (text: string) => {
    if (open) clear();
    writeErr(`${escapeLine(text)}\n`);
  };
  const line = (text: string) => {
    clear();
    news();
    writeErr(`${escapeLine(text)}\n`);
  };
  return {
    update(text) {
      // It comes again, or is out of date by the time that the waiting is over.
      if (knowsTerminal()) return waits ? undefined : show(text);
      if (text === last) return;
      last = text;
      news();
      say(text);
    },
    waiting(text) {
      waits = text !== null;
      if (text === null) return clear();
      if (knowsTerminal()) return show(text);
      if (text === told) return;
      told = text;
      say(text);
    },
    line,
    warn: (text) => line(`warning: ${text}`),
    stream(text) {
      if (text === "") return;
      if (shown) clear();
      writeErr(escape(text));
      open = !text.endsWith("\n");
    },
    clear,
  };
}
