/**
 * agentq as a library: what the command line uses is what anyone can use.
 *
 * Each layer can be imported by itself as well (`./src/store/mod.ts`, …); see docs/architecture.md.
 */
export * from "./src/errors.ts";

// Repositories and origins.
export type * from "./src/git/types.ts";
export { openRepository, type Repository } from "./src/git/repository.ts";
export { openOrigin, type OriginOptions } from "./src/git/origin.ts";

// The merge and its gate.
export type * from "./src/merge/types.ts";
export { mergeCommits } from "./src/merge/merge-commits.ts";
export { checkGate, type GateRequest, type GateVerdict } from "./src/merge/gate.ts";
export { type Overlay, overlay } from "./src/merge/overlay.ts";

// The landing queue.
export { openQueue, type Queue, readSnapshot, type Snapshot } from "./src/landing/snapshot.ts";
export { submit, type SubmitOptions } from "./src/landing/submit.ts";
export type { SubmitRequest } from "./src/landing/submit-request.ts";
export type { DutyOptions } from "./src/landing/duty.ts";
export { landQueue } from "./src/landing/land-queue.ts";
export { waitForTicket } from "./src/landing/wait-for-ticket.ts";
export { statusOf } from "./src/landing/status.ts";
export { createCloneWorkshop } from "./src/landing/clone-workshop.ts";
export { LANDING_DOCUMENTS } from "./src/landing/schemas.ts";

// The durable store.
export * as store from "./src/store/mod.ts";

// Named queues.
export type * from "./src/queuefs/contract.ts";
export { openBackend } from "./src/queuefs/open.ts";
export { type NamedQueue, namedQueue } from "./src/queuefs/named-queue.ts";
export { startWorker, type Worker, type WorkerOptions } from "./src/queuefs/worker.ts";
export { isAllComplete, waitComplete } from "./src/queuefs/completion.ts";
export { type QueueFs, queueFs } from "./src/queuefs/control.ts";
