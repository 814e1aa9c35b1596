/** What is wrong with a document, from the first thing a schema found: in words that name the field. */

/** The part of a zod issue that is needed. */
interface Issue {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** zod/mini's own message where a schema gives none. */
const NO_WORDS = "Invalid input";
const SHOWN = 80;

/** Such as `"ticket" is missing` or `"candidate" is "x", which is not an object id`. */
export function shapeProblem(value: unknown, issue: Issue | undefined): string {
  let at: unknown = value;
  for (const key of issue?.path ?? []) at = (at as Record<PropertyKey, unknown> | null)?.[key];
  const field = issue?.path.map(String).join(".") ?? "";
  const what = field === "" ? "it" : JSON.stringify(field);
  if (at === undefined) return `${what} is missing`;
  const why = issue && issue.message !== NO_WORDS ? `, which ${issue.message}` : "";
  return `${what} is ${shown(at)}${why}`;
}

/** A value in few words: what strangers wrote may be as long or as deep as they like. */
function shown(value: unknown): string {
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object" && value !== null) return "an object";
  const text = JSON.stringify(typeof value === "string" ? value.slice(0, SHOWN) : value);
  return typeof value === "string" && value.length > SHOWN ? `${text}…` : text;
}
