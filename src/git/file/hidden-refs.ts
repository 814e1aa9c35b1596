/**
 * `transfer.hideRefs`, `uploadpack.hideRefs` and `receive.hideRefs`: refs that an origin neither shows
 * nor lets anyone push to. The last matching entry decides; `!` takes a hidden ref out again.
 */
import type { GitConfig } from "../config.ts";

/** Returns a function that names the setting which hides a ref from `service`; null: it is to be seen. */
export function hiddenRefs(
  config: GitConfig,
  service: "uploadpack" | "receive",
): (ref: string) => string | null {
  const names = new Map([
    ["transfer.hiderefs", "transfer.hideRefs"],
    [`${service}.hiderefs`, `${service}.hideRefs`],
  ]);
  const rules = config.entries()
    .flatMap(({ key, value }) => {
      const name = names.get(key);
      const rule = (value ?? "").replace(/\/+$/, "");
      return name === undefined || rule === "" ? [] : [{ name, rule }];
    })
    .reverse();
  return (ref) => {
    for (const { name, rule } of rules) {
      // `^` means the full name; without namespaces every name is a full one.
      const prefix = rule.replace(/^!?\^?/, "");
      if (ref === prefix || ref.startsWith(`${prefix}/`)) return rule.startsWith("!") ? null : name;
    }
    return null;
  };
}
