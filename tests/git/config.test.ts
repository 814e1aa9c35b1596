import assert from "node:assert/strict";
import process from "node:process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import fc from "fast-check";
import { isAgentqError } from "../../src/errors.ts";
import { openConfig } from "../../src/git/config.ts";
import { sharedRepositoryMode } from "../../src/git/shared-repository.ts";
import { rewriteUrl } from "../../src/git/url-rewrite.ts";
import { parseConfig } from "../../src/git/config-file.ts";
import { openRepository } from "../../src/git/repository.ts";
import { git, gitEnv, makeRepo, tempDir, tryGit, write } from "../helpers/git.ts";

const entriesOf = (text: string) => parseConfig(text, "config");

/** What git reads from a config file: [key, value or null], or null when it refuses it. */
function gitEntries(dir: string, text: string): [string, string | null][] | null {
  writeFileSync(join(dir, "file"), text);
  const run = tryGit(dir, ["config", "--no-includes", "--file", "file", "--list", "--null"]);
  if (run.status !== 0) return null;
  return run.stdout.split("\0").slice(0, -1).map((entry) => {
    const end = entry.indexOf("\n");
    return end < 0 ? [entry, null] : [entry.slice(0, end), entry.slice(end + 1)];
  });
}

function ours(text: string): [string, string | null][] | null {
  try {
    return entriesOf(text).map(({ key, value }) => [key, value]);
  } catch (error) {
    assert.ok(isAgentqError(error, "config-invalid"));
    return null;
  }
}

describe("the file format, compared with git", () => {
  const dir = tempDir();
  const cases: Record<string, string> = {
    "sections and subsections": '[a]\nx=1\n[A "B c"]\nY = 2\n[a.Sub]\nz=3\n[a "q\\"u\\\\o\\te"]z=4',
    "values without =": "[a]\nx\ny\nz=\n",
    "quotes, escapes, comments":
      '[a]\nx = a "b ; c" d ; comment\ny="# no"#yes\nz=\\"\\\\\\n\\t\\b|\n',
    "continuation lines": "[a]\nx = one \\\n  two\\\n\ny=1\nz = a # c \\\n",
    "spaces at both ends": '[a]\nx =    v   \ny = "  v  "  \n\tz\t=\tv\t\n',
    "CRLF": "[a]\r\nx = v\r\ny = a\\\r\nb\r\n",
    "byte order mark": "\ufeff[a]\nx=1\n",
    "several on a line": "[a] x = 1\n[b]y=2 ; c\n",
    "no final newline": "[a]\nx=1",
    "repeated keys": "[a]\nx=1\nx=2\n[b]\n[a]\nx=3\n",
    "unicode": "[ü]\nx=1\n",
    "unicode value": '[a "ü"]\nx=ü\n',
    "key before a section": "x=1\n",
    "open quote": '[a]\nx="open\n',
    "unknown escape": "[a]\nx=\\q\n",
    "bad key": "[a]\n1x=1\n",
    "underscore in key": "[a]\nx_y=1\n",
    "text behind a key": "[a]\nx y\n",
    "open section": "[a\nx=1\n",
    "newline in a subsection": '[a "b\nc"]\nx=1\n',
    "text after the subsection": '[a "b" c]\nx=1\n',
    "empty section": "[]\nx=1\n",
  };
  for (const [name, text] of Object.entries(cases)) {
    test(name, () => assert.deepEqual(ours(text), gitEntries(dir, text)));
  }

  test("generated files", () => {
    const piece = fc.constantFrom(
      "[a]",
      '[a "b"]',
      "[c.D]",
      "\n",
      "\n",
      "\n",
      "x",
      "key",
      "=",
      " = ",
      " ",
      '"',
      "\\",
      "\\\\",
      "\\n",
      '\\"',
      "#",
      ";",
      "v",
      "1k",
      "\\\n",
      "\r\n",
      ".",
      "-",
      "\ufeff",
      "]",
      "[",
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 14 }), (pieces) => {
        const text = pieces.join("");
        assert.deepEqual(ours(text), gitEntries(dir, text));
      }),
      { numRuns: Number(process.env.AGENTQ_TEST_RUNS ?? 300) },
    );
  });

  test("an error names the file and the line", () => {
    assert.throws(() => parseConfig("[a]\nx=1\n\n!\n", "/some/config"), (error) => {
      assert.ok(isAgentqError(error, "config-invalid"));
      assert.equal(error.message, "Bad configuration line 4 in /some/config.");
      return true;
    });
  });
});

describe("booleans and numbers, compared with git", () => {
  const dir = makeRepo();
  const values = [
    "true",
    "TRUE",
    "yes",
    "on",
    "false",
    "no",
    "off",
    "",
    "1",
    "0",
    "-1",
    "2k",
    "07",
    "0x10",
    "1M",
    "3g",
    "1kk",
    "maybe",
    "1.5",
    " 1",
    "1 ",
    "k",
    "-2k",
  ];
  for (const value of values) {
    test(JSON.stringify(value), () => {
      writeFileSync(join(dir, ".git/config"), `[t]\nv="${value}"\n`);
      const read = (kind: "bool" | "int") => {
        const run = tryGit(dir, ["config", `--type=${kind}`, "t.v"]);
        return run.status === 0 ? run.stdout.trim() : null;
      };
      const own = (ask: () => unknown) => {
        try {
          return String(ask());
        } catch (error) {
          assert.ok(isAgentqError(error, "config-invalid"));
          return null;
        }
      };
      const { config } = openRepository(dir);
      assert.equal(own(() => config.getBoolean("t.v")), read("bool"));
      assert.equal(own(() => config.getInteger("t.v")), read("int"));
    });
  }
});

describe("levels and includes, compared with git", () => {
  /** Every entry as git lists it with this environment, and as we do. */
  function compare(dir: string, extra: Record<string, string>): void {
    const env = gitEnv(extra);
    const run = tryGit(dir, ["config", "--includes", "--list", "--null"], { env: extra });
    assert.equal(run.status, 0, run.stderr);
    const wanted = run.stdout.split("\0").slice(0, -1);
    const repository = openRepository(dir);
    const config = openConfig({
      repository: {
        gitDir: repository.gitDir,
        commonDir: repository.commonDir,
        worktreeConfig:
          git(dir, "config", "--default=false", "--type=bool", "extensions.worktreeConfig") ===
            "true",
        branch: () => repository.head().branch,
      },
      env,
    });
    const found = config.entries().map(({ key, value }) =>
      value === null ? key : `${key}\n${value}`
    );
    assert.deepEqual(found, wanted);
    for (const { key } of config.entries()) {
      const all = tryGit(dir, ["config", "--includes", "--null", "--get-all", key], { env: extra });
      assert.deepEqual(config.getAll(key), all.stdout.split("\0").slice(0, -1));
      assert.equal(config.get(key), config.getAll(key).at(-1));
    }
  }

  test("system, XDG, home, local, worktree, command line", () => {
    const dir = makeRepo();
    const home = tempDir();
    write(home, "system", "[t]\nv=system\ns=1\n");
    write(home, ".gitconfig", "[t]\nv=home\nh=1\n[include]\npath=~/more\n");
    write(home, "more", "[t]\nmore=1\n");
    write(home, ".config/git/config", "[t]\nv=xdg\nx=1\n");
    git(dir, "config", "t.v", "local");
    const env = { HOME: home, GIT_CONFIG_NOSYSTEM: "0", GIT_CONFIG_SYSTEM: join(home, "system") };
    const unset = (extra: Record<string, string>) => {
      // gitEnv points the global file to nothing: here the real ones are wanted.
      return { ...extra, GIT_CONFIG_GLOBAL: join(home, ".gitconfig") };
    };
    compare(dir, unset(env));
    compare(dir, unset({ ...env, GIT_CONFIG_NOSYSTEM: "1" }));
    compare(dir, {
      ...unset(env),
      GIT_CONFIG_COUNT: "2",
      GIT_CONFIG_KEY_0: "T.Sub.V",
      GIT_CONFIG_VALUE_0: "counted",
      GIT_CONFIG_KEY_1: "t.v",
      GIT_CONFIG_VALUE_1: "",
    });
    compare(dir, {
      ...unset(env),
      GIT_CONFIG_PARAMETERS: "'t.v'='it'\\''s' 't.w=old style' 't.x'",
    });
    git(dir, "commit", "-q", "--allow-empty", "-m", "first");
    git(dir, "config", "extensions.worktreeConfig", "true");
    git(dir, "worktree", "add", "-q", "../" + dir.split("/").pop() + "-linked");
    const linked = dir + "-linked";
    git(linked, "config", "--worktree", "t.v", "worktree");
    compare(linked, unset(env));
    compare(dir, unset(env));
  });

  test("HOME's two files are both read when no variable names one", () => {
    const home = tempDir();
    write(home, ".gitconfig", "[t]\nv=home\n");
    write(home, ".config/git/config", "[t]\nv=xdg\nx=1\n");
    const config = openConfig({ repository: null, env: { HOME: home, GIT_CONFIG_NOSYSTEM: "1" } });
    assert.deepEqual(config.getAll("t.v"), ["xdg", "home"]);
    assert.equal(config.get("t.x"), "1");
  });

  test("include, includeIf by directory, branch and remote url", () => {
    const base = tempDir();
    const dir = join(base, "Work", "repo");
    mkdirSync(dir, { recursive: true });
    makeRepo(dir);
    symlinkSync(join(base, "Work"), join(base, "link"));
    const conditions = [
      `gitdir:${base}/Work/`,
      `gitdir:${base}/work/`,
      `gitdir/i:${base}/work/`,
      "gitdir:Work/repo/.git",
      "gitdir:repo/",
      "gitdir:**/repo/**",
      `gitdir:${base}/*/repo/.git`,
      `gitdir:${base}/link/`,
      "gitdir:./",
      "gitdir:~/",
      "onbranch:main",
      "onbranch:ma*",
      "onbranch:feature/",
      "onbranch:other",
      "unknown:x",
      "hasconfig:remote.*.url:https://example.com/**",
      "hasconfig:remote.*.url:ssh://**",
    ];
    let text = '[remote "o"]\nurl=https://example.com/a/b\n[include]\npath=plain\npath=/missing\n';
    conditions.forEach((condition, i) => {
      text += `[includeIf "${condition}"]\npath=included-${i}\n`;
      write(dir, `.git/included-${i}`, `[t]\ncondition=${i}\n`);
    });
    write(dir, ".git/plain", "[t]\nplain=1\n[include]\npath=../nested\n");
    write(dir, "nested", "[t]\nnested=1\n");
    writeFileSync(join(dir, ".git/config"), text);
    compare(dir, { HOME: base });
    git(dir, "symbolic-ref", "HEAD", "refs/heads/feature/x");
    compare(dir, { HOME: base });
  });

  test("a file that includes itself is refused", () => {
    const dir = makeRepo();
    writeFileSync(join(dir, ".git/config"), "[include]\npath=config\n");
    const { config } = openRepository(dir);
    assert.throws(() => config.entries(), (error) => isAgentqError(error, "config-invalid"));
  });
});

test("subsections, and urls rewritten as git does", () => {
  const dir = makeRepo();
  const urls: [string, string, string][] = [
    ["https://mirror/", "insteadOf", "https://example.com/"],
    ["https://mirror/team/", "insteadOf", "https://example.com/team/"],
    ["ssh://git@example.com/", "pushInsteadOf", "https://example.com/"],
    ["/srv/", "insteadOf", "local:"],
  ];
  for (const [to, kind, from] of urls) git(dir, "config", "--add", `url.${to}.${kind}`, from);
  const { config } = openRepository(dir);
  for (
    const url of [
      "https://example.com/a",
      "https://example.com/team/a",
      "local:x",
      "https://other/",
    ]
  ) {
    git(dir, "config", "remote.r.url", url);
    assert.equal(rewriteUrl(config, url, "fetch"), git(dir, "remote", "get-url", "r"));
    assert.equal(rewriteUrl(config, url, "push"), git(dir, "remote", "get-url", "--push", "r"));
  }
  assert.deepEqual(config.subsections("url"), [...new Set(urls.map(([to]) => to))]);
});

test("core.sharedRepository", () => {
  const dir = makeRepo();
  const cases: [string, number][] = [
    ["umask", 0],
    ["false", 0],
    ["0", 0],
    ["group", 0o660],
    ["true", 0o660],
    ["1", 0o660],
    ["all", 0o664],
    ["2", 0o664],
    ["world", 0o664],
    ["0640", 0o640],
    ["0660", 0o660],
  ];
  for (const [value, mode] of cases) {
    git(dir, "config", "core.sharedRepository", value);
    assert.equal(sharedRepositoryMode(openRepository(dir).config), mode, value);
  }
  git(dir, "config", "core.sharedRepository", "sometimes");
  assert.throws(
    () => sharedRepositoryMode(openRepository(dir).config),
    (error) => isAgentqError(error, "config-invalid"),
  );
});
