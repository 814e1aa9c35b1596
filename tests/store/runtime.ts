/** What the runtime that runs the tests needs before a script's name. */
export function runtimeArguments(): string[] {
  return "Deno" in globalThis ? ["run", "-A", "--no-check"] : [];
}
