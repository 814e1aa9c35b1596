/** Every `--json` document's schema, by its name: what `agentq schema` prints and docs/schemas holds. */
import * as z from "zod/mini";
import { LANDING_DOCUMENTS } from "../src/landing/schemas.ts";
import { mergeDocument } from "../src/merge/merge-pair.ts";
import { STORE_DOCUMENTS } from "../src/store/schemas.ts";
import { QUEUE_DOCUMENTS } from "./commands/queue/schemas.ts";

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

const doctorDocument = z.object({
  schema: z.literal("agentq.doctor/1"),
  /** False when a check failed. */
  ok: z.boolean(),
  checks: z.array(z.object({
    name: z.string(),
    status: z.enum(["ok", "warn", "fail", "skip"]),
    message: z.string(),
    hint: z.nullable(z.string()),
  })),
});

const versionDocument = z.object({
  schema: z.literal("agentq.version/1"),
  version: z.string(),
});

const demoDocument = z.object({
  schema: z.literal("agentq.demo/1"),
  origin: z.nullable(z.string()),
  results: z.array(z.looseObject({ agent: z.string() })),
  status: z.unknown(),
  good: z.boolean(),
});

/** Document name (`agentq.status/1`) → zod schema. */
export const DOCUMENTS: Readonly<Record<string, z.ZodMiniType>> = {
  "agentq.error/1": errorDocument,
  ...LANDING_DOCUMENTS,
  "agentq.merge/1": mergeDocument,
  "agentq.doctor/1": doctorDocument,
  "agentq.demo/1": demoDocument,
  "agentq.version/1": versionDocument,
  ...QUEUE_DOCUMENTS,
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
