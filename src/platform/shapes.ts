/**
 * Shapes of JSON from outside, told at sight. Building zod's schemas takes milliseconds of a run that
 * has few, so what short commands read is checked with these; zod says what documents look like.
 */

export type Check = (value: unknown) => boolean;

/** A check that can say where a value departs from it. */
interface Shape extends Check {
  readonly fields?: Readonly<Record<string, Check>>;
  readonly strict?: boolean;
  readonly inner?: Check;
}

export const isText: Check = (value) => typeof value === "string";
export const isNumber: Check = (value) => typeof value === "number" && Number.isFinite(value);
export const isInteger: Check = (value) => Number.isSafeInteger(value);
export const isCount: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
export const isOid: Check = (value) =>
  typeof value === "string" && value.length === 40 && /^[0-9a-f]{40}$/.test(value);
export const isAnything: Check = () => true;
export const exactly = (wanted: unknown): Check => (value) => value === wanted;
export const textLike = (pattern: RegExp): Check => (value) =>
  typeof value === "string" && pattern.test(value);
export const listOf = (check: Check): Check => (value) =>
  Array.isArray(value) && value.every(check);

export function nullable(inner: Check): Check {
  return Object.assign((value: unknown) => value === null || inner(value), { inner });
}

/** Absent. */
export function optional(inner: Check): Check {
  return Object.assign((value: unknown) => value === undefined || inner(value), { inner });
}

export const maybe = (check: Check): Check => optional(nullable(check));

/** An object with these fields; others are let be. */
export function shape(fields: Readonly<Record<string, Check>>): Check {
  const checks = Object.entries(fields);
  const check = (value: unknown) =>
    isObject(value) && checks.every(([name, test]) => test(value[name]));
  return Object.assign(check, { fields });
}

/** An object with these fields and no others. */
export function strictShape(fields: Readonly<Record<string, Check>>): Check {
  const loose = shape(fields);
  const check = (value: unknown) =>
    loose(value) && Object.keys(value as object).every((name) => Object.hasOwn(fields, name));
  return Object.assign(check, { fields, strict: true });
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The way to the first field that is wrong in a value that doesn't pass; empty: the value itself. */
export function whereWrong(check: Check, value: unknown): string[] {
  const { fields, strict, inner } = check as Shape;
  if (inner !== undefined) return whereWrong(inner, value);
  if (fields === undefined || !isObject(value)) return [];
  for (const [name, test] of Object.entries(fields)) {
    if (!test(value[name])) return [name, ...whereWrong(test, value[name])];
  }
  const unknown = strict ? Object.keys(value).find((name) => !Object.hasOwn(fields, name)) : null;
  return unknown ? [unknown] : [];
}
