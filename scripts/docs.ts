/**
 * The generated pages of docs/: the command line (from its specs), the error codes (from their table),
 * the JSON schemas. `--check` changes nothing and exits 1 when a page lags behind the code.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import process from "node:process";
import { commandHelp } from "../cli/help.ts";
import { COMMANDS } from "../cli/table.ts";
import { jsonSchemas } from "../cli/schemas.ts";
import { ERROR_KINDS, type ErrorKind } from "../src/errors.ts";

const docs = resolve(import.meta.dirname!, "..", "docs");
const NOTE = "<!-- Made by scripts/docs.ts: change the code, then run it. -->";

function cliPage(): string {
  const parts = COMMANDS.map((spec) =>
    `## agentq ${spec.path.join(" ")}\n\n\`\`\`\n${commandHelp(spec).replace(/\n*$/, "")}\n\`\`\`\n`
  );
  return `${NOTE}
# The command line

Every flag can be given as \`--flag\`, in the environment (\`AGENTQ_FLAG\`, dashes as underscores) and in git config
(\`agentq.flag\`; but \`--repo\`, which says whose). The first of these that says something counts; an empty variable
says nothing. A flag that takes several values (\`--drop\`) has them one a line in its variable, and one a value of its
key in config. A flag without a value is \`true\`, \`yes\`, \`on\` or \`1\` there, or the contrary. A value that is
none is an error (\`usage\`) that names where it stands. What names one thing or one delivery, or is an operator's word
for one occasion, can be said on the command line alone: the help of each command tells which flags these are.

${parts.join("\n")}`;
}

function errorsPage(): string {
  const rows = Object.entries(ERROR_KINDS as Record<string, ErrorKind>).map(([code, kind]) =>
    `| \`${code}\` | ${kind.exit === "signal" ? "130, 143, 129, 141" : kind.exit ?? 2} | ${
      kind.retryable ? "yes" : ""
    } | ${kind.hint.replaceAll("|", "\\|")} |`
  );
  return `${NOTE}
# Error codes

Every failure prints one of these: with \`--json\` as \`{"schema":"agentq.error/1","error":{"code",…}}\`
on stdout, else as a message and a hint on stderr. A message names the thing; the hint below is the
default, and gives way to a more exact one where more is known. So too whether another attempt may help: what counts
is \`retryable\` of the document, which is \`true\` or isn't there (a Redis that is a read-only replica may become the
master: \`backend-denied\` with \`retryable\`). A run that is stopped from outside exits
130 after SIGINT, 143 after SIGTERM, 129 after SIGHUP (a closed terminal; not under nohup) and 141 when nobody reads
its output any more, as shells count signals. One
that had done its work when the signal came tells it and exits as ever; one that can't know says so
(\`commit-uncertain\`, \`push-unknown\`, \`backend-outcome-unknown\`, exit 2). After \`interrupted\` with
\`details.ticket\` that ticket is queued and goes on; with \`details.submission\` a second signal cut off the push of that
submission, which may be queued: \`agentq status\` tells. Else, unless a second signal ended it (the message says so), what
the command was to change is as it was.
\`queue work\` says what it did and exits 130, 143 or 129.

| code | exit | worth retrying as it is | what to do |
|---|---|---|---|
${rows.join("\n")}
`;
}

/** Page path below docs/ → content. */
export function pages(): Map<string, string> {
  const made = new Map([["cli.md", cliPage()], ["errors.md", errorsPage()]]);
  for (const [name, schema] of Object.entries(jsonSchemas())) {
    made.set(`schemas/${name.replace("/", "-")}.json`, `${JSON.stringify(schema, null, 2)}\n`);
  }
  return made;
}

function main(check: boolean): number {
  const made = pages();
  const stale: string[] = [];
  for (const [name, content] of made) {
    const path = join(docs, name);
    if (existsSync(path) && readFileSync(path, "utf8") === content) continue;
    stale.push(name);
    if (check) continue;
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
  }
  const schemas = join(docs, "schemas");
  for (const file of existsSync(schemas) ? readdirSync(schemas) : []) {
    if (made.has(`schemas/${file}`)) continue;
    stale.push(`schemas/${file}`);
    if (!check) rmSync(join(schemas, file));
  }
  for (const name of stale) console.error(`docs/${name}: ${check ? "not up to date" : "written"}`);
  return check && stale.length > 0 ? 1 : 0;
}

if (import.meta.main) process.exit(main(process.argv.includes("--check")));
