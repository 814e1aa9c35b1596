/** How a lander is to work, and why one stops. */
import type { Clock } from "../platform/clock.ts";
import type { ResultEntry } from "./chain.ts";
import type { Workshop } from "./workshop.ts";

export interface LanderOptions {
  readonly clock: Clock;
  /** This run's participant id. */
  readonly me: string;
  readonly workshop: Workshop;
  /**
   * How often a ticket's checks may fail to run, on all machines together, before it is refused; and how
   * often its publication may be refused before one behind it is tried in its place.
   */
  readonly attempts: number;
  /** Stop after the ticket of this number. */
  readonly until?: number;
  /** Stop after so many results. */
  readonly max?: number;
  /** Aborted when this run is to end. */
  readonly signal: AbortSignal;
  readonly onProgress?: (text: string) => void;
  readonly onResult?: (entry: ResultEntry) => void;
}

/** Why a lander stopped. */
export type Stop =
  | { readonly why: "idle" | "until" | "max" }
  /** The lock is no longer ours: nothing was published by this lander. */
  | { readonly why: "lost"; readonly because: string }
  | { readonly why: "paused"; readonly by: string; readonly reason: string | null }
  /** The ticket is left to another lander. */
  | { readonly why: "left"; readonly ticket: number; readonly because: string }
  /** The checks of the ticket couldn't be run; it may be tried again, here or elsewhere. */
  | { readonly why: "failed"; readonly ticket: number; readonly error: unknown };
