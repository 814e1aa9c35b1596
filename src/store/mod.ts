/** The link-free durable store (v2): create, open, and what it is made of. */
export { parseReceipt } from "./claims.ts";
export { decodePayload } from "./encoding.ts";
export { type InitOptions, type InitReport, initStore } from "./init.ts";
export { isPortableSegment, isQueueName } from "./names.ts";
export { preparedPayload } from "./payload.ts";
export { DEFAULT_LIMITS } from "./platform.ts";
export { standingLock } from "./standing-lock.ts";
export { openStore } from "./store.ts";
export * from "./types.ts";
export { type UnlockOptions, type UnlockReport, unlockStore } from "./unlock.ts";
