/** How this program starts itself again: the compiled binary, or its source under Bun or Deno. */

/** Program and leading arguments; the command's own words follow them. */
export function selfCommand(): readonly string[] {
  const script = process.argv[1] ?? "";
  // A compiled binary's script lies in its embedded file system.
  if (script.startsWith("/$bunfs/") || /^[A-Z]:[\\/]~BUN[\\/]/.test(script)) {
    return [process.execPath];
  }
  return "deno" in process.versions
    ? [process.execPath, "run", "-A", script]
    : [process.execPath, script];
}
