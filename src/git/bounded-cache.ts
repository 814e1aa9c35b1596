/**
 * A cache of bounded weight, in two generations: what is asked for is kept in the young one; when that is
 * half the budget, it becomes the old one and what was old is dropped. Nearly as good as strict order of
 * use, without touching anything on a hit.
 */
export interface BoundedCache {
  /** A part with keys of its own under the common budget. */
  part<Value, Key = number>(): CachePart<Value, Key>;
  clear(): void;
}

export interface CachePart<Value, Key = number> {
  get(key: Key): Value | undefined;
  /** Keeps `value`, unless it alone weighs more than a quarter of the budget. */
  set(key: Key, value: Value, weight: number): void;
  clear(): void;
}

interface Kept<Value> {
  readonly value: Value;
  readonly weight: number;
}

export function createBoundedCache(budget: number): BoundedCache {
  /** Of the parts that hold something: one that is done with leaves nothing behind. */
  const rotations = new Set<() => void>();
  let young = 0;

  function rotate(): void {
    young = 0;
    for (const each of rotations) each();
  }

  return {
    part<Value, Key = number>(): CachePart<Value, Key> {
      let now = new Map<Key, Kept<Value>>();
      let before = new Map<Key, Kept<Value>>();
      const turn = () => {
        before = now;
        now = new Map();
        if (before.size === 0) rotations.delete(turn);
      };
      const set = (key: Key, value: Value, weight: number) => {
        if (weight > budget / 4) return;
        const known = now.get(key);
        if (known) young -= known.weight;
        rotations.add(turn);
        now.set(key, { value, weight });
        young += weight;
        if (young > budget / 2) rotate();
      };
      return {
        get(key) {
          const kept = now.get(key);
          if (kept) return kept.value;
          const old = before.get(key);
          if (!old) return undefined;
          set(key, old.value, old.weight);
          return old.value;
        },
        set,
        clear() {
          for (const { weight } of now.values()) young -= weight;
          now = new Map();
          before = new Map();
          rotations.delete(turn);
        },
      };
    },
    clear() {
      rotate();
      rotate();
    },
  };
}
