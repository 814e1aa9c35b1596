/**
 * Waiting that somebody should know of: for a lock, where nothing else tells why nothing happens. Who waits says so
 * here, and whoever talks to the person (`cli/run.ts`) is told once it has lasted a second. One for the process: the
 * stores and databases that a command opens on its way are opened in many places.
 */

/** Told what is waited for, once a second; null when that is over. */
export type Told = (what: string | null) => void;

let tell: Told | null = null;

/** From now on `told` is told; null: nobody. */
export function whenWaiting(told: Told | null): void {
  tell = told;
}

const PATIENCE_MS = 1000;

export interface Waiting {
  /** It still lasts. `what` is asked for when it is to be told. */
  still(what: () => string): void;
  /** It is over; must be called where {@link still} was. */
  over(): void;
}

/** Something is waited for from now on. */
export function startWaiting(): Waiting {
  let next = performance.now() + PATIENCE_MS;
  let told = false;
  return {
    still(what) {
      if (tell === null || performance.now() < next) return;
      next = performance.now() + PATIENCE_MS;
      told = true;
      tell(what());
    },
    over() {
      if (told) tell?.(null);
    },
  };
}
