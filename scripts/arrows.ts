/**
 * The import arrows: who may import whom.
 *
 *   cli → landing, queuefs → store, merge, git → platform → errors
 *
 * Prints each import that goes another way and exits 1; also anything of a runtime's own (`Bun.`,
 * `Deno.`, `bun:`) outside src/platform.
 */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import process from "node:process";

const root = resolve(import.meta.dirname!, "..");

const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  "errors": [],
  "platform": ["errors"],
  "git": ["platform", "errors"],
  "merge": ["git", "platform", "errors"],
  "store": ["platform", "errors"],
  "landing": ["store", "merge", "git", "platform", "errors"],
  "queuefs": ["store", "platform", "errors"],
  "cli": ["landing", "queuefs", "store", "merge", "git", "platform", "errors"],
};

/** The layer a file belongs to, or null for files outside the layers. */
function layerOf(file: string): string | null {
  const path = relative(root, file).split("/");
  if (path[0] === "cli") return "cli";
  if (path[0] !== "src") return null;
  return path.length === 2 ? path[1]!.replace(/\.ts$/, "") : path[1]!;
}

function* sources(dir: string): Generator<string> {
  for (const entry of readdirSync(dir, { withFileTypes: true })) {
    const path = join(dir, entry.name);
    if (entry.isDirectory()) yield* sources(path);
    else if (entry.name.endsWith(".ts")) yield path;
  }
}

/** Every violation, one line each. */
export function violations(): string[] {
  const found: string[] = [];
  for (const file of [...sources(join(root, "src")), ...sources(join(root, "cli"))]) {
    const text = readFileSync(file, "utf8");
    const from = layerOf(file)!;
    const name = relative(root, file);
    for (const match of text.matchAll(/(?:from|import\()\s*"([^"]+)"/g)) {
      const target = match[1]!;
      if (!target.startsWith(".")) {
        if (target.startsWith("bun")) found.push(`${name}: imports ${target}`);
        continue;
      }
      const to = layerOf(resolve(dirname(file), target));
      if (to === null || to === from) continue;
      if (!MAY_IMPORT[from]?.includes(to)) found.push(`${name}: ${from} may not import ${to}`);
    }
    // These take milliseconds to load, which every command would pay.
    const heavy = /^import (?!type\b)[^;]*from "(node:(?:stream|child_process))";/m.exec(text);
    if (heavy && from !== "cli") {
      found.push(
        `${name}: loads ${heavy[1]} at start, which src/platform/builtins.ts doesn't`,
      );
    }
    const code = text.replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, "");
    if (from !== "platform" && /\b(?:Bun|Deno)\.\w/.test(code)) {
      found.push(`${name}: uses a runtime's own API`);
    }
  }
  return found;
}

if (import.meta.main) {
  const found = violations();
  for (const line of found) console.error(line);
  process.exit(found.length > 0 ? 1 : 0);
}
