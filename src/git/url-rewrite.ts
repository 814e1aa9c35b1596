/** Urls as the configuration says to read them. */
import type { GitConfig } from "./config.ts";

/** A url as `url.<base>.insteadOf` (and for pushing, first, `pushInsteadOf`) rewrites it. */
export function rewriteUrl(config: GitConfig, url: string, direction: "fetch" | "push"): string {
  const rewrite = (kind: string): string | null => {
    let best: { base: string; prefix: string } | null = null;
    for (const base of config.subsections("url")) {
      for (const prefix of config.getAll(`url.${base}.${kind}`)) {
        if (url.startsWith(prefix) && prefix.length > (best?.prefix.length ?? -1)) {
          best = { base, prefix };
        }
      }
    }
    return best && best.base + url.slice(best.prefix.length);
  };
  return (direction === "push" ? rewrite("pushInsteadOf") : null) ?? rewrite("insteadOf") ?? url;
}
