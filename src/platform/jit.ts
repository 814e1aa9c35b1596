/**
 * The binary starts with a just-in-time compiler that waits long before it compiles: most commands are
 * over before it would pay. Measured on `status`: a quarter less processor time.
 */

interface BunLike {
  readonly unsafe?: { setJITPolicy?(scale: number): void };
}

/** Says that much work follows: from here on, hot code is compiled as soon as usual. */
export function expectMuchWork(): void {
  (globalThis as { Bun?: BunLike }).Bun?.unsafe?.setJITPolicy?.(1);
}
