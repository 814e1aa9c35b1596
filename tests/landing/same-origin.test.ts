/** Which urls name one origin. */
import assert from "node:assert/strict";
import { mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { isSameOrigin } from "../../src/landing/submit-request.ts";
import { tempDir } from "../helpers/git.ts";

test("of web servers: what none tells apart, and no more", () => {
  const url = "https://host.example/team/o.git";
  const same = [
    url,
    `${url}/`,
    "https://HOST.example/team/o.git",
    "https://host.example:443/team/o.git//",
  ];
  for (const one of same) assert.ok(isSameOrigin(url, one) && isSameOrigin(one, url), one);
  const others = [
    "https://host.example/team/o",
    "https://host.example/team/O.git",
    "http://host.example/team/o.git",
    "https://host.example:8443/team/o.git",
    "https://host.example/o.git",
    "ssh://host.example/team/o.git",
  ];
  for (const one of others) assert.ok(!isSameOrigin(url, one) && !isSameOrigin(one, url), one);
});

test("of directories: whatever leads there", () => {
  const root = tempDir();
  const at = join(root, "o.git");
  mkdirSync(at);
  symlinkSync(at, join(root, "link"));
  for (const one of [at, `file://${at}`, join(root, "link"), join(root, "o"), `${at}/`]) {
    assert.ok(isSameOrigin(at, one), one);
  }
  assert.ok(!isSameOrigin(at, join(root, "other.git")));
});
