/** What is made once for each name and kept. */

/** Keeps what `make` made for a name, for a thousand of them. */
export function remember<T>(make: (name: string) => T): (name: string) => T {
  const kept = new Map<string, T>();
  return (name) => {
    let value = kept.get(name);
    if (value === undefined) {
      value = make(name);
      if (kept.size >= 1000) kept.clear();
      kept.set(name, value);
    }
    return value;
  };
}
