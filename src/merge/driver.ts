/** Merge drivers that the clone's configuration defines: `merge.<name>.driver`. */
import { runOnFiles } from "../platform/command-sync.ts";
import { byteString } from "../platform/path-bytes.ts";
import type { DriverCall, DriverResult } from "./types.ts";

/** A runner for {@link MergeOptions.runDriver}: with `sh -c`, in `cwd`. */
export function driverRunner(cwd: string): (call: DriverCall) => DriverResult {
  return ({ command, base, ours, theirs, path, markerSize }) =>
    runOnFiles(
      { base, ours, theirs },
      "ours",
      (files) =>
        expandPlaceholders(byteString(command), {
          O: byteString(quote(files.base!)),
          A: byteString(quote(files.ours!)),
          B: byteString(quote(files.theirs!)),
          L: String(markerSize),
          P: quotePathname(path),
        }),
      cwd,
    );
}

/** `%%` is a percent sign; a placeholder that isn't known stays. */
export function expandPlaceholders(
  command: string,
  values: Readonly<Record<string, string>>,
): string {
  return command.replace(/%(.)/gs, (all, key: string) => key === "%" ? "%" : values[key] ?? all);
}

/** One word of a shell command, whatever is in it. */
function quote(word: string): string {
  return /^[A-Za-z0-9_/.+:=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** The same for a path, always between quotes, as git does it: a driver may have been written for that. */
function quotePathname(path: string): string {
  return `'${path.replace(/['!]/g, "'\\$&'")}'`;
}
