/** Words of the command line that aren't UTF-8: refused by name, never changed without a word. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { tempDir } from "../helpers/git.ts";

const main = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));
const start = process.versions.deno === undefined ? [main] : ["run", "-A", "--no-check", main];

test("data, ids, reasons and a program's words are refused where they aren't UTF-8", {
  timeout: 120_000,
}, () => {
  const state = tempDir();
  /** `B` in the script is what can't be written here: a word that ends in the byte ff. */
  const run = (script: string, input = "") => {
    const before = `B="$(printf 'a\\377')"; U="$(printf 'a\\357\\277\\275')"; q() { "$0" "$@"; }; `;
    const words = [process.execPath, ...start].map((word) => `'${word}'`).join(" ");
    const ran = spawnSync("sh", ["-c", before + script.replaceAll("agentq", words)], {
      env: { ...process.env, AGENTQ_STATE: state },
      encoding: "utf8",
      input,
      cwd: state,
    });
    return { code: ran.status, out: ran.stdout, err: ran.stderr };
  };
  assert.equal(run("agentq queue create j").code, 0);
  const refused: [string, RegExp][] = [
    [`agentq queue enqueue j "$B"`, /DATA is not UTF-8: "a<ff>"/],
    [`agentq queue enqueue j x --id "$B"`, /--id is not UTF-8: "a<ff>"/],
    [`agentq queue enqueue j x --id="x$B"`, /--id is not UTF-8: "xa<ff>"/],
    [`agentq queue fs write j/enqueue "$B"`, /DATA is not UTF-8/],
    [`agentq queue fail j x --reason "$B"`, /--reason is not UTF-8/],
    [`agentq queue work j -- cat "$B"`, /word 2 of the program is not UTF-8/],
    [`agentq queue status "$B"`, /NAME is not UTF-8/],
    // One that really has that character doesn't hide one that hasn't.
    [`agentq queue ack j "$U" "$B"`, /ID is not UTF-8/],
  ];
  for (const [script, words] of refused) {
    const { code, err } = run(script);
    assert.equal(code, 64, `${script}: ${err}`);
    assert.match(err, words);
  }
  assert.equal(run("agentq queue size j").out, "0\n");
  // The character that such bytes are shown as is a character like any other.
  assert.equal(run(`agentq queue enqueue j "$U" --id x`).code, 0);
  assert.equal(JSON.parse(run("agentq queue peek j").out).data, "a\ufffd");
  const { out } = run(`agentq queue work j --until-empty -- printf %s "$U"`);
  assert.equal(out, "a\ufffd");
});
