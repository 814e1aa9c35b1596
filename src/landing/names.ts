/**
 * The refs of one landing queue.
 *
 * Branch names may hold slashes, so a queue's refs could be another branch's: `main/queue` as a branch
 * would need `refs/weave/main/queue/queue` while branch `main` has `refs/weave/main/queue`. Git's refs
 * can't hold both, and agentq says so in its own words before anything is pushed.
 */
import { AgentqError } from "../errors.ts";
import { checkRefName, isRefName } from "../git/ref-name.ts";

/** The last words of chain refs; `spec` is kept for speculative verdicts. */
export const CHAIN_WORDS = ["queue", "done", "lock", "spec"] as const;

export interface QueueNames {
  readonly namespace: string;
  /** Short name, `main`. */
  readonly branchName: string;
  /** `refs/heads/main` */
  readonly branch: string;
  readonly queue: string;
  readonly done: string;
  readonly lock: string;
  /** What one advertisement must be asked for: everything above and whatever could collide with it. */
  readonly prefixes: readonly string[];
}

/**
 * Names the refs of `branchName`'s queue.
 * @throws `ref-name-invalid`, `branch-name-collision`
 */
export function queueNames(namespace: string, branchName: string): QueueNames {
  const branch = `refs/heads/${branchName}`;
  if (
    branchName === "HEAD" || branchName.startsWith("refs/heads/") || branchName === "" ||
    !isRefName(branch)
  ) {
    throw new AgentqError(
      "ref-name-invalid",
      `${JSON.stringify(branchName)} is not the name of a branch`,
      { hint: "Use the branch's short name, such as main." },
    );
  }
  const base = `${namespace}/${branchName}`;
  const [queue, done, lock] = CHAIN_WORDS.map((word) => `${base}/${word}`) as [
    string,
    string,
    string,
    string,
  ];
  if (!namespace.startsWith("refs/")) {
    throw new AgentqError(
      "ref-name-invalid",
      `the namespace ${JSON.stringify(namespace)} is not below refs/`,
      { hint: "Use a namespace such as refs/weave." },
    );
  }
  checkRefName(queue);
  for (const ref of [queue, done, lock]) {
    if (`${ref}/`.startsWith(`${branch}/`) || `${branch}/`.startsWith(`${ref}/`)) {
      throw collision(branchName, ref, branch);
    }
  }
  return {
    namespace,
    branchName,
    branch,
    queue,
    done,
    lock,
    prefixes: [
      branch,
      `${base}/`,
      ...branchesInTheWay(branchName).flatMap(({ above, word }) => [
        `refs/heads/${above}`,
        `${namespace}/${above}/${word}`,
      ]),
    ],
  };
}

/**
 * Branches with a chain where this queue's refs are to go: for `a/lock/b`, branch `a` and its lock. A
 * branch that exists counts also while its queue is empty: one misspelt submission would block it.
 */
function branchesInTheWay(branchName: string): { above: string; word: string }[] {
  const segments = branchName.split("/");
  return segments.flatMap((word, at) =>
    at > 0 && (CHAIN_WORDS as readonly string[]).includes(word)
      ? [{ above: segments.slice(0, at).join("/"), word }]
      : []
  );
}

/**
 * Checks what the origin has against these names.
 * @throws `branch-name-collision`
 */
export function assertNoCollision(names: QueueNames, refs: ReadonlyMap<string, string>): void {
  for (const chain of [names.queue, names.done, names.lock]) {
    for (let slash = chain.indexOf("/", 5); slash > 0; slash = chain.indexOf("/", slash + 1)) {
      const above = chain.slice(0, slash);
      if (refs.has(above)) throw collision(names.branchName, chain, above);
    }
  }
  for (const { above } of branchesInTheWay(names.branchName)) {
    const taken = `refs/heads/${above}`;
    if (refs.has(taken)) throw collision(names.branchName, names.queue, taken);
  }
  for (const ref of refs.keys()) {
    for (const chain of [names.queue, names.done, names.lock]) {
      if (ref.startsWith(`${chain}/`)) throw collision(names.branchName, chain, ref);
    }
  }
}

function collision(branchName: string, ours: string, theirs: string): AgentqError {
  return new AgentqError(
    "branch-name-collision",
    `the queue of branch ${JSON.stringify(branchName)} needs ${ours}, but ${theirs} is taken`,
    { details: { branch: branchName, ref: ours, taken: theirs } },
  );
}
