/** How one goes on after a refused merge that wasn't left in progress. */
import type { ResultDocument } from "../src/landing/schemas.ts";
import type { Context } from "./context.ts";
import { printableRemote } from "./landing.ts";

/** What the branch is called after conflict markers and in commands, such as `origin/main`. */
export function upstreamName({ remote }: Context, branch: string): string {
  return `${isName(remote) ? remote : "origin"}/${branch}`;
}

/** Names the commands, when merging the branch is what is asked for. */
export function goOnBy(context: Context, branch: string, document: ResultDocument): void {
  // Without paths it is no conflict: what has no commit in common can't be merged.
  if (document.reason !== "merge refused" || document.files.length === 0) return;
  const remote = printableRemote(context);
  // Names that a shell would take apart are left to whoever types them.
  const [from, to] = [remote, branch].map((name, i) =>
    /^[\w./@:+,=~-]+$/.test(name) && !name.startsWith("-") ? name : ["REMOTE", "BRANCH"][i]!
  ) as [string, string];
  const commands = isName(context.remote)
    ? `git fetch ${from} && git merge ${from}/${to}`
    : `git fetch ${from} ${to} && git merge FETCH_HEAD`;
  context.progress.line(
    `to go on, with ${
      document.candidate.slice(0, 12)
    } checked out: ${commands}; settle it so that ` +
      `both sides' changes are in it, git commit, submit again`,
  );
}

/** A remote's name and no url or path. */
const isName = (remote: string): boolean => !/[/:]/.test(remote);
