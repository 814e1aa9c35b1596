/**
 * `transfer.hideRefs`, `uploadpack.hideRefs` and `receive.hideRefs`: refs that an origin neither shows
 * nor lets anyone push to. The last matching entry decides; `!` takes a hidden ref out again.
 */
import type { GitConfig } from "../config.ts";

/** Returns a function that says whether a ref is hidden from `service`. */
export function hiddenRefs(
  config: GitConfig,
  service: "uploadpack" | "receive",
): (ref: string) => boolean {
  const rules = config.entries()
    .filter(({ key }) => key === "transfer.hiderefs" || key === `${service}.hiderefs`)
    .map(({ value }) => (value ?? "").replace(/\/+$/, ""))
    .filter((rule) => rule !== "")
    .reverse();
  return (ref) => {
    for (const rule of rules) {
      // `^` means the full name; without namespaces every name is a full one.
      const prefix = rule.replace(/^!?\^?/, "");
      if (ref === prefix || ref.startsWith(`${prefix}/`)) return !rule.startsWith("!");
    }
    return false;
  };
}
