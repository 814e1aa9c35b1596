import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, test } from "node:test";
import { STORE_SITES } from "../../src/store/sites.ts";
import { crashTable } from "./table.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const STORE = join(ROOT, "src/store");

/** The store's own sources; v1 is another protocol with another library's calls. */
function sources(): [name: string, text: string][] {
  return readdirSync(STORE, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !/(^|\/)v1(-|\.|\/)/.test(name))
    .map((name) => [name, readFileSync(join(STORE, name), "utf8")]);
}

describe("docs/crash-points.md", () => {
  test("is what the code does now (else: bun scripts/crash-points.ts)", async () => {
    const { text } = await crashTable();
    assert.equal(readFileSync(join(ROOT, "docs/crash-points.md"), "utf8"), text);
  });

  test("has every registered mutation and sync, and nothing unregistered", async () => {
    const { sites } = await crashTable();
    assert.deepEqual([...sites].sort(), Object.keys(STORE_SITES).sort());
  });
});

describe("the store's sources", () => {
  test("change and sync files through named sites only", () => {
    assert.ok(sources().length > 15);
    const used = new Set<string>();
    for (const [name, text] of sources()) {
      assert.doesNotMatch(text, /["']node:(fs|child_process)|fs\/promises/, name);
      for (const [, site] of text.matchAll(/"((?:[a-z]+)\.[a-z-]+)"/g)) {
        if (site! in STORE_SITES) used.add(site!);
      }
    }
    assert.deepEqual([...used].sort(), Object.keys(STORE_SITES).sort(), "no dead entries");
  });

  test("never mention a call that links, copies or renames a directory", () => {
    for (const [name, text] of sources()) {
      assert.doesNotMatch(text, /\b(link|linkSync|copyFile|copyFileSync|cpSync|cp)\(/, name);
    }
    const platform = readFileSync(join(ROOT, "src/platform/files.ts"), "utf8");
    assert.doesNotMatch(platform, /\bfs\.(link|copyFile|cp|symlink)/);
  });
});
