/** Every `--json` document's schema, by its name: what `agentq schema` prints and docs/schemas holds. */
import * as z from "zod/mini";
import { LANDING_DOCUMENTS } from "../src/landing/schemas.ts";
import { STORE_DOCUMENTS } from "../src/store/schemas.ts";

const errorDocument = z.object({
  schema: z.literal("agentq.error/1"),
  error: z.object({
    code: z.string(),
    message: z.string(),
    hint: z.string(),
    retryable: z.optional(z.boolean()),
    details: z.optional(z.record(z.string(), z.unknown())),
  }),
});

/** Document name (`agentq.status/1`) → zod schema. */
export const DOCUMENTS: Readonly<Record<string, z.ZodMiniType>> = {
  "agentq.error/1": errorDocument,
  ...LANDING_DOCUMENTS,
  ...STORE_DOCUMENTS,
};

/** Document name → JSON schema (draft 2020-12). */
export function jsonSchemas(): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(DOCUMENTS).map((
      [name, schema],
    ) => [name, z.toJSONSchema(schema, { unrepresentable: "any" })]),
  );
}
