/** Merge drivers that the clone's configuration defines: `merge.<name>.driver`. */
import { Buffer } from "node:buffer";
import { runOnFiles } from "../platform/command-sync.ts";
import type { DriverCall, DriverResult } from "./types.ts";

/** A runner for {@link MergeOptions.runDriver}: with `sh -c`, in `cwd`. */
export function driverRunner(cwd: string): (call: DriverCall) => DriverResult {
  return ({ command, base, ours, theirs, path, markerSize }) =>
    runOnFiles(
      { base, ours, theirs },
      "ours",
      (files) =>
        expandPlaceholders(command, {
          O: quote(files.base!),
          A: quote(files.ours!),
          B: quote(files.theirs!),
          L: String(markerSize),
          // The shell gets the bytes of the path: UTF-8 where it is that.
          P: quote(Buffer.from(path, "latin1").toString("utf8")),
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
