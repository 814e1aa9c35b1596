/** Where a redirect leads, as far as git follows one. */
import { AgentqError } from "../../errors.ts";
import { redactUrl } from "../remote.ts";
import type { HttpResponse } from "./client.ts";

/**
 * The new base after the redirect of a first request; `suffix` must survive at the end of its path.
 * @param mode `http.followRedirects`
 * @throws `protocol-error`, `forbidden` for one away from https
 */
export function redirected(
  response: HttpResponse,
  { base, requested, suffix, mode, name }: {
    readonly base: URL;
    readonly requested: URL;
    readonly suffix: string;
    readonly mode: string;
    readonly name: string;
  },
): URL {
  const location = response.headers.get("location");
  if (/^(false|no|off|0)$/i.test(mode) || location === undefined) {
    throw new AgentqError("protocol-error", `${name} answers with a redirect.`, {
      hint: "Use the url it leads to, or allow redirects (http.followRedirects).",
      details: { status: response.status },
    });
  }
  let target: URL;
  try {
    target = new URL(location, requested);
  } catch {
    throw new AgentqError("protocol-error", `${name} redirects to a malformed url.`);
  }
  const downgrade = requested.protocol === "https:" && target.protocol !== "https:";
  if (!/^https?:$/.test(target.protocol) || downgrade) {
    throw new AgentqError("forbidden", `${name} redirects to ${redactUrl(target.href)}.`, {
      hint: "A redirect away from https is not followed: change the remote's url if it is right.",
    });
  }
  const path = target.pathname + target.search;
  if (!path.endsWith(suffix)) {
    throw new AgentqError("protocol-error", `${name} redirects to ${redactUrl(target.href)}.`, {
      hint: "No git server is there: a login page, perhaps. Check the url and the credential.",
    });
  }
  // Put together piece by piece: a path that begins with two slashes would be read as a host.
  const [directory = "", ...query] = path.slice(0, -suffix.length).split("?");
  const next = new URL(target);
  next.hash = "";
  next.pathname = directory;
  next.search = query.join("?");
  if (next.origin === base.origin) {
    next.username = base.username;
    next.password = base.password;
  }
  return next;
}
