/** The `--json` documents of `agentq store …`. */
import * as z from "zod/mini";

const root = z.string();
const storeId = z.string();
const lock = z.object({ path: z.string(), ownerToken: z.string() });
const finding = z.object({
  level: z.enum(["error", "warning", "note"]),
  path: z.string(),
  message: z.string(),
});

/** Document name → zod schema. */
export const STORE_DOCUMENTS: Readonly<Record<string, z.ZodMiniType>> = {
  "agentq.store-init/1": z.object({
    schema: z.literal("agentq.store-init/1"),
    root,
    storeId,
    movedAside: z.nullable(z.string()),
  }),
  "agentq.store-check/1": z.object({
    schema: z.literal("agentq.store-check/1"),
    root,
    storeId,
    revision: z.string(),
    slots: z.int(),
    failed: z.int(),
    orphans: z.int(),
    stateBytes: z.int(),
    findings: z.array(finding),
    sound: z.boolean(),
  }),
  "agentq.store-unlock/1": z.object({
    schema: z.literal("agentq.store-unlock/1"),
    root,
    removed: z.array(lock),
  }),
  "agentq.store-gc/1": z.object({
    schema: z.literal("agentq.store-gc/1"),
    root,
    objects: z.int(),
    files: z.int(),
    left: z.array(z.string()),
  }),
};
