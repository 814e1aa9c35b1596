/** `agentq schema`: the JSON schema of a `--json` document. */
import { AgentqError } from "../../src/errors.ts";
import type { Context } from "../context.ts";
import { writeOut } from "../output/write.ts";
import { jsonSchemas } from "../schemas.ts";

export function run(_context: Context, args: readonly string[]): Promise<number> {
  const schemas = jsonSchemas();
  const name = args[0];
  if (name === undefined) {
    writeOut(`${Object.keys(schemas).join("\n")}\n`);
  } else if (Object.hasOwn(schemas, name)) {
    writeOut(`${JSON.stringify(schemas[name], null, 2)}\n`);
  } else {
    throw new AgentqError("usage", `there is no document ${JSON.stringify(name.slice(0, 100))}`, {
      hint: `One of: ${Object.keys(schemas).join(", ")}.`,
    });
  }
  return Promise.resolve(0);
}
