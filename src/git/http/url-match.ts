/** How `<section>.<url>.<key>` settings are fitted to a url, in git's order. */

/**
 * How well a pattern fits a url, null when it doesn't: an exact host before one with `*` labels, longer
 * paths before shorter, a user name before none. Always more than 0, the rank of no pattern at all.
 */
export function urlMatchRank(pattern: string, url: URL): number | null {
  let wanted: URL;
  try {
    wanted = new URL(pattern.replaceAll("*", "wildcard-label"));
  } catch {
    return null;
  }
  if (wanted.protocol !== url.protocol || wanted.port !== url.port) return null;
  const labels = wanted.hostname.split(".");
  const actual = url.hostname.split(".");
  if (labels.length !== actual.length) return null;
  if (!labels.every((label, i) => label === "wildcard-label" || label === actual[i])) return null;
  if (wanted.username !== "" && wanted.username !== url.username) return null;
  const path = wanted.pathname.replace(/\/+$/, "");
  if (path !== "" && url.pathname !== path && !url.pathname.startsWith(`${path}/`)) return null;
  const exact = labels.includes("wildcard-label") ? 0 : 1;
  return 1 + exact * 1_000_000 + path.length * 2 + (wanted.username === "" ? 0 : 1);
}

/** The same for credentials, whose patterns may lack the scheme: `credential.host.example.helper`. */
export function credentialMatches(pattern: string, url: URL): boolean {
  if (pattern.includes("://")) return urlMatchRank(pattern, url) !== null;
  return urlMatchRank(`${url.protocol}//${pattern}`, url) !== null;
}
