/** Where credentials come from and who is told what became of them: the same as with real git. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { after, before, test } from "node:test";
import { isAgentqError } from "../../../src/errors.ts";
import { openConfig } from "../../../src/git/config.ts";
import { openSmartHttp } from "../../../src/git/http/smart.ts";
import { openOrigin } from "../../../src/git/origin.ts";
import { openRepository } from "../../../src/git/repository.ts";
import { commit, git, makeRepo, tempDir, write } from "../../helpers/git.ts";
import { type GitServer, serveGit } from "./server.ts";

const PATH = process.env.PATH ?? "/usr/bin:/bin";
const SECRET = "s3cret/@: x";
const root = tempDir();
const dir = tempDir();
const log = join(dir, "log");
let server: GitServer;
let first: string;

before(async () => {
  const clone = makeRepo();
  first = commit(clone, "first");
  git(root, "clone", "-q", "--bare", clone, "repo.git");
  git(join(root, "repo.git"), "config", "http.receivepack", "true");
  server = await serveGit(root, { basic: `me:${SECRET}` });
  // Helpers that say what their name is for, and note what they are told.
  for (
    const [name, says] of Object.entries({
      right: `username=me\\npassword=${SECRET}\\n`,
      wrong: "username=me\\npassword=old\\n",
      name: "username=me\\n",
      word: `password=${SECRET}\\n`,
      quit: "quit=1\\n",
      url: `username=x\\npassword=old\\nurl=http://me:${
        encodeURIComponent(SECRET).replaceAll("%", "%%")
      }@${server.url.slice("http://".length)}/\\n`,
      urluser: `password=old\\nurl=http://me@${server.url.slice("http://".length)}/\\n`,
      mute: "",
    })
  ) {
    executable(
      name,
      `{ echo "== ${name} $*"; grep -v '^\\(capability\\|wwwauth\\)\\['; } >> ${log}\n` +
        `for last; do :; done\n[ "$last" = get ] && printf '${says}'; exit 0\n`,
    );
  }
  executable("askword", `echo '${SECRET}'\n`);
  executable(
    "ask",
    `echo "== $*" >> ${log}\ncase "$1" in Username*) echo me;; *) echo '${SECRET}';; esac\n`,
  );
});
after(() => server.close());

function executable(name: string, script: string): void {
  write(dir, name, `#!/bin/sh\n${script}`);
  chmodSync(join(dir, name), 0o755);
}

interface Case {
  /** Lines `key=value`; `@x` stands for the helper x (a letter follows), `$url` for the server. */
  config?: string[];
  env?: Record<string, string>;
  user?: string;
  /** Files of the home to begin with. */
  home?: Record<string, string>;
}

interface Told {
  works: boolean;
  log: string;
  home: Record<string, string>;
}

const FILES = [".git-credentials", ".config/git/credentials", "named"];

/** What a reader does in a fresh clone and home. */
async function look(
  { config = [], env = {}, user = "", home = {} }: Case,
  read: (clone: string, env: Record<string, string>) => Promise<boolean>,
): Promise<Told> {
  const clone = makeRepo();
  const place = tempDir();
  for (const [name, text] of Object.entries(home)) write(place, name, text);
  const url = server.url.replace("//", user === "" ? "//" : `//${user}@`) + "/repo.git";
  git(clone, "remote", "add", "origin", url);
  const fill = (text: string) =>
    text.replaceAll("$url", server.url).replaceAll("$home", place).replaceAll(
      /@(?=[a-z])/g,
      `${dir}/`,
    );
  for (const line of config) {
    const equals = line.indexOf("=");
    git(clone, "config", "--add", fill(line.slice(0, equals)), fill(line.slice(equals + 1)));
  }
  rmSync(log, { force: true });
  const filled = Object.entries(env).map(([key, value]) => [key, fill(value)]);
  const works = await read(clone, { PATH, HOME: place, ...Object.fromEntries(filled) });
  const text = (path: string) =>
    existsSync(path) ? readFileSync(path, "utf8").replaceAll(place, "HOME") : "";
  const found = FILES.filter((name) => existsSync(join(place, name)));
  return {
    works,
    log: text(log),
    home: Object.fromEntries(found.map((name) => [name, text(join(place, name))])),
  };
}

const byGit = (given: Case) =>
  look(given, (clone, env) => {
    // Beside this process, which is the server.
    const child = spawn("git", ["ls-remote", "origin", "main"], {
      cwd: clone,
      env: { ...env, GIT_TERMINAL_PROMPT: "0", GIT_CONFIG_NOSYSTEM: "1" },
      stdio: ["ignore", "pipe", "ignore"],
    });
    let out = "";
    child.stdout.on("data", (chunk) => out += chunk);
    return new Promise((resolve) =>
      child.once("close", (code) => resolve(code === 0 && out.startsWith(first)))
    );
  });

const byUs = (given: Case) =>
  look(given, async (clone, env) => {
    const origin = await openOrigin("origin", { repository: openRepository(clone), env });
    try {
      const { refs } = await origin.refs(["refs/heads/"]);
      return refs.get("refs/heads/main") === first;
    } catch (error) {
      assert.ok(isAgentqError(error, "auth-required"), String(error));
      assert.ok(!JSON.stringify([error, error.stack]).includes("s3cret"));
      return false;
    } finally {
      origin.close();
    }
  });

const ask = { GIT_ASKPASS: "@ask" };
const encoded = encodeURIComponent(SECRET);
const same: Record<string, Case> = {
  "a helper that knows": { config: ["credential.helper=@right"] },
  "a helper that knows an old one": { config: ["credential.helper=@wrong"] },
  "a helper with arguments": { config: ["credential.helper=@right --some 'a b'"] },
  "a shell helper": { config: ["credential.helper=!@right in; @mute"] },
  "one for the user, one for the password": {
    config: ["credential.helper=@name", "credential.helper=@word"],
  },
  "a helper that knows nothing, then askpass": { config: ["credential.helper=@mute"], env: ask },
  "core.askPass": { config: ["core.askPass=@ask"] },
  "SSH_ASKPASS": { env: { SSH_ASKPASS: "@ask" } },
  "GIT_ASKPASS before core.askPass before SSH_ASKPASS": {
    config: ["core.askPass=/nowhere/1"],
    env: { ...ask, SSH_ASKPASS: "/nowhere/2" },
  },
  "askpass, with a user in the url": { user: "me", env: ask },
  "the path counts": {
    config: ["credential.useHttpPath=true", "credential.helper=@mute"],
    env: ask,
  },
  "the path counts here": {
    config: ["credential.$url.useHttpPath=true", "credential.helper=@right"],
  },
  "the path counts elsewhere": {
    config: ["credential.http://elsewhere.useHttpPath=true", "credential.helper=@right"],
  },
  "a user for the server": {
    config: ["credential.$url.username=me", "credential.helper=@word"],
  },
  "a helper for the server, for its path, for another": {
    config: [
      "credential.$url/repo.git.helper=@mute path",
      "credential.$url.helper=@right",
      "credential.$url/other.helper=@wrong",
      "credential.http://127.0.0.1:1.helper=@wrong",
      "credential.https://127.0.0.1.helper=@wrong",
    ],
  },
  "an empty helper forgets those before": {
    config: ["credential.helper=@wrong", "credential.helper=", "credential.helper=@right"],
  },
  "a helper that answers with a url": { config: ["credential.helper=@url"] },
  "one that answers with a user's url, and another": {
    config: ["credential.helper=@urluser", "credential.helper=@word"],
  },
  "one that answers with a user's url, then askpass": {
    config: ["credential.helper=@urluser"],
    env: { GIT_ASKPASS: "@askword" },
  },
  "a helper that ends the search": {
    config: ["credential.helper=@quit", "credential.helper=@right"],
    env: ask,
  },
  "a helper that isn't there": {
    config: ["credential.helper=no-such", "credential.helper=@right"],
  },
  "nobody": {},
  "store keeps what was asked for": { config: ["credential.helper=store"], env: ask },
  "store keeps it where there is a file": {
    config: ["credential.helper=store"],
    env: ask,
    home: { ".config/git/credentials": "https://a:b@elsewhere\n" },
  },
  "store keeps it in the file named": {
    config: ["credential.helper=store --file=$home/named"],
    env: ask,
  },
  "store keeps the path where that counts": {
    config: ["credential.helper=store", "credential.useHttpPath=true"],
    env: ask,
  },
  "store tells what it knows": {
    config: ["credential.helper=store"],
    home: { ".git-credentials": `https://x:y@127.0.0.1\n$url`.replace("$url", "") },
  },
};

for (const [name, given] of Object.entries(same)) {
  test(`as with git: ${name}`, { timeout: 60_000 }, async () => {
    const theirs = await byGit(given);
    assert.deepEqual(await byUs(given), theirs);
  });
}

test("store: what is known is used; what is refused is erased, and nothing else", async () => {
  const place = server.url.slice("http://".length);
  const good = `http://me:${encoded}@${place}\n`;
  const other = "https://a:b@elsewhere.example\n";
  const store = ["credential.helper=store"];
  const known: Case = { config: store, home: { ".git-credentials": other + good } };
  const theirs = await byGit(known);
  const ours = await byUs(known);
  assert.ok(theirs.works && ours.works);
  const sorted = ({ home }: Told) => home[".git-credentials"]!.split("\n").sort();
  assert.deepEqual(sorted(ours), sorted(theirs));
  const stale: Case = {
    config: store,
    home: { ".git-credentials": `${other}http://me:old@${place}\n` },
  };
  assert.deepEqual(await byUs(stale), await byGit(stale));
  // One that was stored since isn't the one that was refused.
  const raced = await byUs({
    config: [
      ...store,
      `credential.helper=!f() { cat >/dev/null; [ $1 = get ] && echo 'http://me:${encoded}@${place}' > $home/.git-credentials; echo username=me; echo password=old; }; f`,
    ],
  });
  assert.equal(raced.home[".git-credentials"], good);
});

test("the store's file is for its owner alone, and without the helper it is read and left", async () => {
  const home = tempDir();
  const clone = makeRepo();
  const read = async (env: Record<string, string>) => {
    const origin = await openOrigin(`${server.url}/repo.git`, {
      repository: openRepository(clone),
      env: { PATH, HOME: home, ...env },
    });
    try {
      return (await origin.refs(["refs/heads/"])).refs.get("refs/heads/main");
    } finally {
      origin.close();
    }
  };
  git(clone, "config", "credential.helper", "store");
  assert.equal(await read({ GIT_ASKPASS: join(dir, "ask") }), first);
  const file = join(home, ".git-credentials");
  assert.equal(statSync(file).mode & 0o777, 0o600);
  git(clone, "config", "--unset", "credential.helper");
  assert.equal(await read({}), first);
  const stale = readFileSync(file, "utf8").replace(/:[^:@]*@/, ":old@");
  mkdirSync(join(home, "xdg", "git"), { recursive: true });
  writeFileSync(file, stale);
  await assert.rejects(read({}), (error) => isAgentqError(error, "auth-required"));
  assert.equal(readFileSync(file, "utf8"), stale);
  rmSync(file);
  const good = `http://me:${encoded}@${server.url.slice("http://".length)}\n`;
  writeFileSync(join(home, "xdg", "git", "credentials"), good);
  assert.equal(await read({ XDG_CONFIG_HOME: join(home, "xdg") }), first);
});

test("a token from the environment or the url is given to no helper; an expired one isn't used", async () => {
  const clone = makeRepo();
  rmSync(log, { force: true });
  git(clone, "config", "credential.helper", join(dir, "right"));
  const env = { PATH, HOME: tempDir() };
  const repository = () => openRepository(clone);
  const at = (login: string) => `${server.url.replace("//", `//${login}`)}/repo.git`;
  const given = await openOrigin(at(`me:${encoded}@`), { repository: repository(), env });
  await given.refs(["refs/heads/"]);
  given.close();
  const token = await openOrigin(at("me@"), {
    repository: repository(),
    env: { ...env, AGENTQ_TOKEN: SECRET },
  });
  await token.refs(["refs/heads/"]);
  token.close();
  assert.equal(existsSync(log), false);
  executable("expired", `echo username=me; echo password=${SECRET}; echo password_expiry_utc=1\n`);
  git(clone, "config", "credential.helper", join(dir, "expired"));
  const late = await openOrigin(at(""), { repository: repository(), env });
  await assert.rejects(late.refs(["refs/"]), (error) => isAgentqError(error, "auth-required"));
  late.close();
});

test("an Authorization header that is configured is the only one, and helpers learn nothing", async () => {
  const clone = makeRepo();
  rmSync(log, { force: true });
  git(clone, "config", "credential.helper", join(dir, "right"));
  git(clone, "config", "http.extraHeader", "AUTHORIZATION: basic b2xk");
  const env = { PATH, HOME: tempDir() };
  const origin = await openOrigin(`${server.url}/repo.git`, {
    repository: openRepository(clone),
    env,
  });
  await assert.rejects(
    origin.refs(["refs/"]),
    (error) => isAgentqError(error, "auth-required") && /extraHeader/.test(error.message),
  );
  origin.close();
  assert.equal(existsSync(log), false);
});

test("a credential that ends while it is used is erased, and asked for anew", async () => {
  const home = tempDir();
  const env = { HOME: home, PATH };
  const config = openConfig({ repository: null, env: { ...env, GIT_CONFIG_NOSYSTEM: "1" } });
  write(home, ".gitconfig", `[credential]\n\thelper = ${join(dir, "right")}\n`);
  rmSync(log, { force: true });
  const smart = openSmartHttp(new URL(`${server.url}/repo.git`), { config, env, timeouts: {} });
  const advertise = async () => {
    for await (const _ of await smart.advertise("git-upload-pack"));
  };
  await advertise();
  let refused = false;
  server.intercept = (_exchange, response) => {
    if (refused) return false;
    refused = true;
    response.writeHead(401, { "WWW-Authenticate": "Basic" });
    response.end();
    return true;
  };
  await advertise();
  server.intercept = null;
  smart.close();
  assert.deepEqual(
    readFileSync(log, "utf8").match(/== right \w+/g),
    ["get", "store", "erase", "get", "store"].map((word) => `== right ${word}`),
  );
});
