/**
 * Every place where the store changes or syncs anything, by name.
 *
 * The file-system interface takes nothing but these names, so a new system call needs an entry here;
 * `docs/crash-points.md` is generated from what the operations actually pass through, and the tests
 * fail when the two differ. `sync` sites are the ones that make a promise true.
 */
export const STORE_SITES = {
  "lock.announce": "mutation",
  "lock.create": "mutation",
  "lock.write": "mutation",
  "lock.withdraw": "mutation",
  "lock.release": "mutation",

  "admit.sync-parent": "sync",

  "object.mkdir": "mutation",
  "object.create": "mutation",
  "object.write": "mutation",
  "object.sync-file": "sync",
  "object.sync-directory": "sync",
  "objects.sync": "sync",

  "state.write-temp": "mutation",
  "state.sync-temp": "sync",
  "state.rename": "mutation",
  "state.sync-parent": "sync",

  "collect.unlink": "mutation",
  "collect.rmdir": "mutation",

  "abort.unlink-payload": "mutation",
  "abort.rmdir-object": "mutation",

  "init.mkdir-root": "mutation",
  "init.sync-root-parent": "sync",
  "init.chmod-root": "mutation",
  "init.probe-mkdir": "mutation",
  "init.probe-rmdir": "mutation",
  "init.mkdir-namespace": "mutation",
  "init.mkdir-objects": "mutation",
  "init.sync-objects": "sync",
  "init.create-state": "mutation",
  "init.write-state": "mutation",
  "init.sync-state": "sync",
  "init.create-format": "mutation",
  "init.write-format": "mutation",
  "init.sync-format": "sync",
  "init.sync-namespace": "sync",
  "init.sync-root": "sync",

  "aside.mkdir": "mutation",
  "aside.rename-file": "mutation",
  "aside.rmdir": "mutation",
  "aside.sync": "sync",

  "unlock.remove-lock": "mutation",
  "unlock.remove-announcement": "mutation",

  "gc.unlink-payload": "mutation",
  "gc.rmdir-object": "mutation",
} as const satisfies Record<string, "mutation" | "sync">;

export type StoreSite = keyof typeof STORE_SITES;
