/**
 * An origin in memory: one map of refs, one of objects, the same compare-and-swap. Faults are injected
 * by `interfere`, asked before and after every operation.
 */
import { AgentqError } from "../../src/errors.ts";
import { parseCommit, serializeCommit } from "../../src/git/commit.ts";
import { hashObject } from "../../src/git/oid.ts";
import type {
  ObjectReader,
  ObjectType,
  Oid,
  Origin,
  PushOptions,
  PushOutcome,
  RawObject,
  RefUpdate,
} from "../../src/git/types.ts";

export type Operation = "refs" | "read" | "push";

/** What happens to one push. */
export type PushFault =
  | "none"
  /** Applied, the answer is lost. */
  | "lost-answer"
  /** Not applied, the answer is lost. */
  | "lost-request"
  /** Some refs move, then the origin dies; the answer is lost. */
  | { readonly half: readonly number[] }
  | { readonly refuse: string }
  /** Another push holds the lock of this ref. */
  | { readonly locked: string };

export interface Interference {
  /** Awaited before and after each operation: where schedules are decided. */
  step?(operation: Operation, who: string): Promise<void>;
  /** Asked for every push that would win. */
  push?(updates: readonly RefUpdate[], who: string, objects: ObjectReader): PushFault;
}

export interface FakeOrigin {
  readonly refs: Map<string, Oid>;
  readonly objects: Map<Oid, RawObject>;
  /** Every move of a ref that was applied, in order. */
  readonly moves: { ref: string; old: Oid | null; new: Oid; who: string }[];
  interference: Interference;
  /** The origin as `who` sees it. */
  as(who: string): Origin;
  reader(): ObjectReader;
  write(type: ObjectType, data: Uint8Array): Oid;
}

export function createFakeOrigin(): FakeOrigin {
  const refs = new Map<string, Oid>();
  const objects = new Map<Oid, RawObject>();
  const moves: FakeOrigin["moves"] = [];

  const reader = (): ObjectReader => ({
    has: (oid) => objects.has(oid),
    read(oid) {
      const object = objects.get(oid);
      if (object) return object;
      throw new AgentqError("object-missing", `no ${oid}`, { details: { oid } });
    },
    stat: (oid) => ({ type: reader().read(oid).type, size: reader().read(oid).data.length }),
  });

  const fake: FakeOrigin = {
    refs,
    objects,
    moves,
    interference: {},
    reader,
    write(type, data) {
      const oid = hashObject(type, data);
      objects.set(oid, { type, data });
      return oid;
    },
    as: (who) => ({
      kind: "http",
      url: "fake://origin",
      async refs(prefixes) {
        await fake.interference.step?.("refs", who);
        const found = new Map(
          [...refs].filter(([ref]) => prefixes.some((prefix) => ref.startsWith(prefix))),
        );
        await fake.interference.step?.("refs", who);
        return { refs: found, head: "refs/heads/main" };
      },
      async readCommits(oids) {
        await fake.interference.step?.("read", who);
        const found = new Map<Oid, Uint8Array>();
        for (const oid of oids) {
          const object = objects.get(oid);
          if (object?.type === "commit") found.set(oid, object.data);
        }
        return found;
      },
      objects: () => null,
      async fetch() {},
      async push(updates, from, options) {
        await fake.interference.step?.("push", who);
        const outcome = apply(fake, who, updates, from, options);
        await fake.interference.step?.("push", who);
        return outcome;
      },
      close() {},
    }),
  };
  return fake;
}

function apply(
  fake: FakeOrigin,
  who: string,
  updates: readonly RefUpdate[],
  from: ObjectReader,
  options: PushOptions = {},
): PushOutcome {
  const moved = updates.filter(({ ref, old }) => (fake.refs.get(ref) ?? null) !== old);
  if (moved.length > 0) {
    return { status: "lost", message: "moved", refs: moved.map(({ ref }) => ref) };
  }
  const fault = fake.interference.push?.(updates, who, from) ?? "none";
  if (fault === "lost-request") return { status: "unknown", message: "cut before" };
  if (typeof fault === "object" && "refuse" in fault) {
    return {
      status: "refused",
      message: fault.refuse,
      remoteOutput: fault.refuse,
      refs: updates.map(({ ref }) => ({ ref, reason: fault.refuse })),
    };
  }
  if (typeof fault === "object" && "locked" in fault) {
    throw new AgentqError("ref-locked", `${fault.locked} is locked`);
  }
  const known = new Set(options.remoteHas ?? []);
  for (const update of updates) receive(fake, from, update.new, known);
  const chosen = typeof fault === "object" ? fault.half : updates.map((_, i) => i);
  updates.forEach((update, i) => {
    if (!chosen.includes(i)) return;
    fake.refs.set(update.ref, update.new);
    fake.moves.push({ ...update, who });
  });
  if (fault !== "none") return { status: "unknown", message: "cut after" };
  return { status: "won" };
}

/** Takes over what a ref is to point to, and demands that everything it reaches is there afterwards. */
function receive(fake: FakeOrigin, from: ObjectReader, oid: Oid, known: ReadonlySet<Oid>): void {
  if (fake.objects.has(oid)) return;
  if (known.has(oid)) throw new Error(`${oid} was said to be in the origin and isn't`);
  const object = from.read(oid);
  if (object.type === "commit") {
    const { tree, parents } = parseCommit(object.data, oid);
    receive(fake, from, tree, known);
    for (const parent of parents) receive(fake, from, parent, known);
  }
  fake.objects.set(oid, object);
}

/** A commit with one file whose name and content is `name`, written to `fake`. */
export function fakeCommit(fake: FakeOrigin, parents: readonly Oid[], name: string): Oid {
  const tree = fake.write("tree", new TextEncoder().encode(""));
  const identity = "A U Thor <a@example.com> 1000 +0000";
  return fake.write(
    "commit",
    serializeCommit({ tree, parents, author: identity, committer: identity, message: `${name}\n` }),
  );
}
