/** What goes over the wire: what is missing, as little of it as can be, and no refs but ours. */
import assert from "node:assert/strict";
import type { Buffer } from "node:buffer";
import { randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { openOrigin } from "../../../src/git/origin.ts";
import { openRepository } from "../../../src/git/repository.ts";
import type { ObjectReader, Oid, Origin } from "../../../src/git/types.ts";
import { commit, git, makeRepo, tempDir, tryGit } from "../../helpers/git.ts";
import { serveGit } from "./server.ts";

interface Wire {
  readonly bare: string;
  readonly work: string;
  readonly origin: Origin;
  /** Bytes of the bodies of requests to git-receive-pack. */
  readonly sent: () => number;
  /** The bodies of git-upload-pack's answers. */
  readonly answers: Buffer[];
}

async function withWire(work: string, use: (wire: Wire) => Promise<void>): Promise<void> {
  const root = tempDir();
  git(root, "clone", "-q", "--bare", work, "repo.git");
  const bare = join(root, "repo.git");
  git(bare, "config", "http.receivepack", "true");
  const server = await serveGit(root);
  const answers: Buffer[] = [];
  server.tamper = ({ method, url }, body) => {
    if (method === "POST" && url.endsWith("/git-upload-pack")) answers.push(body);
    return { body };
  };
  const origin = await openOrigin(`${server.url}/repo.git`, { env: {} });
  const sent = () =>
    server.log.filter(({ method, url }) => method === "POST" && url.endsWith("/git-receive-pack"))
      .reduce((sum, { headers }) => sum + Number(headers["content-length"]), 0);
  try {
    await use({ bare, work, origin, sent, answers });
  } finally {
    origin.close();
    await server.close();
  }
}

/** Counts what is read. */
function counted(objects: ObjectReader): ObjectReader & { readonly asked: Set<Oid> } {
  const asked = new Set<Oid>();
  return {
    asked,
    has: (oid) => objects.has(oid),
    stat: (oid) => (asked.add(oid), objects.stat(oid)),
    read: (oid) => (asked.add(oid), objects.read(oid)),
  };
}

/** Lines that don't deflate to nothing. */
const lines = Array.from({ length: 8000 }, (_, i) => `${i} ${Math.imul(i, 0x9e3779b1) >>> 0}`);

/** A repository with a history, many directories, and one large file. */
function longHistory(): string {
  const work = makeRepo();
  let stream = "";
  for (let i = 0; i < 1000; i++) {
    stream += `commit refs/heads/main\ncommitter A <a@b> ${1_700_000_000 + i} +0000\n` +
      `data 2\nx\n\nM 100644 inline d${i % 50}/f${i}\ndata 6\nfirst\n\n`;
  }
  const text = lines.join("\n");
  stream += `M 100644 inline large.txt\ndata ${text.length}\n${text}\n`;
  assert.equal(tryGit(work, ["fast-import", "--quiet", "--force"], { input: stream }).status, 0);
  git(work, "reset", "-q", "--hard", "main");
  return work;
}

const history = longHistory();

test("a push of one changed line sends a thin pack of deltas, and looks at no history", async () => {
  await withWire(history, async ({ bare, work, origin, sent }) => {
    const old = git(work, "rev-parse", "main");
    const changed = [...lines.slice(0, 4000), "changed", ...lines.slice(4001)].join("\n");
    const next = commit(work, "one line", { "large.txt": changed });
    const repository = openRepository(work);
    const objects = counted(repository.objects);
    const outcome = await origin.push(
      [{ ref: "refs/heads/main", old, new: next }, { ref: "refs/weave/x", old: null, new: next }],
      objects,
      { remoteHas: [old] },
    );
    repository.close();
    assert.equal(outcome.status, "won");
    assert.equal(git(bare, "cat-file", "blob", "main:large.txt"), changed);
    // A commit, the root tree of 51 entries and the file, the last two as deltas.
    assert.ok(sent() > 0 && sent() < 1500, `${sent()} bytes`);
    // Both versions of what changed, and the commit's parent as far as walks go to be sure of dates.
    assert.ok(objects.asked.size < 32, `${objects.asked.size} objects`);
    git(work, "reset", "-q", "--hard", old);
  });
});

test("a fetch asks for what is missing: of one changed line it gets little more than the line", async () => {
  const clone = tempDir();
  git(clone, "clone", "-q", "--bare", history, ".");
  await withWire(history, async ({ bare, work, origin, answers }) => {
    const old = git(work, "rev-parse", "main");
    const next = commit(work, "one line", { "large.txt": [...lines, "at the end"].join("\n") });
    git(work, "push", "-q", bare, "main");
    const repository = openRepository(clone);
    await origin.fetch([next], repository.objects, { haves: [old] });
    const received = answers.reduce((sum, body) => sum + body.length, 0);
    assert.ok(received > 0 && received < 2500, `${received} bytes`);
    answers.length = 0;
    await origin.fetch([next], repository.objects, { haves: [next] });
    assert.deepEqual(answers, []);
    repository.close();
    git(clone, "update-ref", "refs/heads/main", next);
    assert.equal(git(clone, "fsck", "--full", "--strict", "--no-dangling"), "");
    git(work, "reset", "-q", "--hard", old);
  });
});

test("of an origin with ten thousand refs only ours are asked for", async () => {
  await withWire(history, async ({ bare, origin, answers }) => {
    const tip = git(bare, "rev-parse", "main");
    git(bare, "update-ref", "refs/weave/main/queue", tip);
    git(bare, "pack-refs", "--all");
    const packed = join(bare, "packed-refs");
    const others = Array.from(
      { length: 10_000 },
      (_, i) => `${tip} refs/pull/${String(i).padStart(5, "0")}/head\n`,
    );
    const [header, main, queue] = readFileSync(packed, "utf8").trimEnd().split("\n");
    assert.match(`${main} ${queue}`, /refs\/heads\/main .*refs\/weave\/main\/queue/);
    writeFileSync(packed, `${header}\n${main}\n${others.join("")}${queue}\n`);
    assert.equal(git(bare, "for-each-ref").split("\n").length, 10_002);
    const { refs } = await origin.refs(["refs/heads/main", "refs/weave/main/"]);
    assert.deepEqual([...refs.keys()].sort(), ["refs/heads/main", "refs/weave/main/queue"]);
    assert.equal(answers.length, 1);
    assert.ok(answers[0]!.length < 300, `${answers[0]!.length} bytes`);
  });
});

/** A commit that nothing is in, with two parents: as a queue's entries are. */
function entryOf(repo: string, ...parents: string[]): string {
  const tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
  const flags = parents.flatMap((parent) => ["-p", parent]);
  return git(repo, "commit-tree", "-m", "entry", ...flags, tree);
}

test("parents come along where the server filters, and their files never do", async () => {
  await withWire(history, async ({ bare, work, origin, answers }) => {
    const candidate = git(work, "rev-parse", "main");
    const first = entryOf(work, candidate);
    const second = entryOf(work, first, candidate);
    const third = entryOf(work, second, candidate);
    git(work, "push", "-q", bare, `${third}:refs/weave/x`);
    const bytes = () => answers.splice(0).reduce((sum, body) => sum + body.length, 0);
    // Not asked to, this server filters nothing: then there is the entry alone.
    assert.deepEqual([...(await origin.readCommits([third], undefined, 3)).keys()], [third]);
    assert.ok(bytes() < 1000);
    git(bare, "config", "uploadpack.allowFilter", "true");
    const again = await openOrigin(origin.url, { env: {} });
    const found = [...(await again.readCommits([third], undefined, 3)).keys()];
    for (const oid of [third, second, first, candidate]) assert.ok(found.includes(oid));
    assert.ok(bytes() < 3000);
    again.close();
  });
});

test("a parent of a size that nobody asked for is left out", { timeout: 60_000 }, async () => {
  await withWire(history, async ({ bare, origin }) => {
    git(bare, "config", "uploadpack.allowFilter", "true");
    const message = randomBytes(4_500_000).toString("base64");
    const tree = git(bare, "rev-parse", "main^{tree}");
    const huge = tryGit(bare, ["commit-tree", tree], { input: message }).stdout.trim();
    const entry = entryOf(bare, huge);
    assert.deepEqual([...(await origin.readCommits([entry], undefined, 2)).keys()], [entry]);
    // Asked for by name it is there.
    assert.deepEqual([...(await origin.readCommits([huge])).keys()], [huge]);
  });
});
