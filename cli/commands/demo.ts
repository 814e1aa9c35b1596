/**
 * `agentq demo`: a throwaway origin and three clones whose agents submit at the same moment, each in a
 * process of its own. Two changes go together, the third breaks the checks and is refused alone.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AgentqError } from "../../src/errors.ts";
import { selfCommand } from "../../src/platform/self.ts";
import type { Context } from "../context.ts";
import { type Clone, commitFiles, type Files, makeClone, makeOrigin } from "../demo/playground.ts";
import type { Flags } from "../spec.ts";

const START: Files = {
  "greet.sh": "greet() {\n  echo hello\n}\n\npart() {\n  echo bye\n}\n",
  "check.sh": 'set -e\n. ./greet.sh\ntest -n "$(greet)"\ntest -n "$(part)"\n',
};

const AGENTS = [
  {
    name: "ada",
    work: "say hello to everyone",
    files: { ...START, "greet.sh": START["greet.sh"]!.replace("hello", "hello, everyone") },
  },
  {
    name: "ben",
    work: "a longer goodbye",
    files: { ...START, "greet.sh": START["greet.sh"]!.replace("bye", "goodbye") },
  },
  {
    name: "cy",
    work: "a stricter check that nothing passes yet",
    files: { ...START, "check.sh": `${START["check.sh"]}test "$(greet)" = bonjour\n` },
  },
];

interface Finished {
  readonly agent: string;
  readonly code: number;
  readonly document: Record<string, unknown>;
}

/** What is set for other runs would make another demo. */
function withoutSettings(): NodeJS.ProcessEnv {
  const others = Object.entries(process.env).filter(([name]) => !name.startsWith("AGENTQ_"));
  return Object.fromEntries(others);
}

/** Runs this program in `clone` as one agent would; resolves with its one JSON document. */
function agentq(
  clone: Clone,
  agent: string,
  signal: AbortSignal,
  args: readonly string[],
): Promise<Finished> {
  const [program, ...leading] = selfCommand();
  return new Promise((resolve, reject) => {
    const child = spawn(program!, [...leading, ...args, "--json", "--quiet"], {
      cwd: clone.dir,
      env: { ...withoutSettings(), AGENTQ_STATE: join(clone.dir, "..", `${agent}.state`) },
      stdio: ["ignore", "pipe", "inherit"],
      signal,
    });
    let out = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => out += text);
    child.on("error", reject);
    child.on("close", (code, killed) => {
      try {
        resolve({ agent, code: code ?? 2, document: JSON.parse(out) });
      } catch (cause) {
        const ended = killed ? `was killed by ${killed}` : `ended with exit code ${code}`;
        const message = `${agent}'s agentq ${ended} and printed no document.`;
        reject(new AgentqError("internal", message, { cause }));
      }
    });
  });
}

function sentence(finished: Finished, work: string): string {
  const { document, agent } = finished;
  const ticket = `ticket ${document.ticket}`;
  if (document.outcome === "landed") {
    return `${ticket}  ${agent} (${work}): landed as ${String(document.landed).slice(0, 12)}`;
  }
  return `${ticket}  ${agent} (${work}): ${document.outcome}, ${document.reason}`;
}

export async function run(
  context: Context,
  _args: readonly string[],
  flags: Flags,
): Promise<number> {
  const dir = mkdtempSync(join(tmpdir(), "agentq-demo-"));
  const origin = join(dir, "origin.git");
  try {
    context.progress.line(`an origin and three clones in ${dir}`);
    const first = makeOrigin(origin, START);
    const clones = new Map<string, Clone>();
    for (const { name, work, files } of AGENTS) {
      const clone = await makeClone(join(dir, name), origin, first);
      await commitFiles(clone, name, work, files);
      clones.set(name, clone);
    }
    context.progress.line('all three run at once: agentq submit --verify-cmd "sh check.sh"');
    const finished = await Promise.all(
      AGENTS.map(({ name, work }) =>
        agentq(clones.get(name)!, name, context.signal, [
          "submit",
          "--verify-cmd",
          "sh check.sh",
          "--title",
          work,
          "--poll",
          "0.1",
        ])
      ),
    );
    finished.sort((a, b) => Number(a.document.ticket) - Number(b.document.ticket));
    const status = await agentq(clones.get("ada")!, "ada", context.signal, ["status"]);
    const landed = finished.filter((one) => one.document.outcome === "landed").length;
    const good = landed === 2 && finished.length === 3 && status.document.complete === true &&
      finished.every((one) => one.code === (one.document.outcome === "landed" ? 0 : 1));
    context.print(
      {
        schema: "agentq.demo/1",
        origin: flags.keep === true ? origin : null,
        results: finished.map((one) => ({ agent: one.agent, ...one.document })),
        status: status.document,
        good,
      },
      () =>
        [
          ...finished.map((one) =>
            sentence(one, AGENTS.find((agent) => agent.name === one.agent)!.work)
          ),
          `main is at ${String((status.document.snapshot as { tip: string }).tip).slice(0, 12)}, ` +
          `the queue is ${status.document.complete ? "empty" : "not empty"}.`,
          good
            ? "Both good changes are on main, merged and checked one after another; the bad one is not."
            : "This is not what should have happened.",
          ...(flags.keep === true ? [`kept: ${dir}`] : []),
        ].join("\n"),
    );
    return good ? 0 : 2;
  } finally {
    if (flags.keep !== true) rmSync(dir, { recursive: true, force: true });
  }
}
