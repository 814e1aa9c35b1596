/**
 * Built-in modules that take up to milliseconds to load (some bring streams along), loaded when they are
 * first used: most commands are over without them.
 */

export const nodeChildProcess = () => process.getBuiltinModule("node:child_process");
export const nodeCrypto = () => process.getBuiltinModule("node:crypto");
export const nodeOs = () => process.getBuiltinModule("node:os");
export const nodeStream = () => process.getBuiltinModule("node:stream");
export const nodeUrl = () => process.getBuiltinModule("node:url");
export const nodeWorkerThreads = () => process.getBuiltinModule("node:worker_threads");
export const nodeZlib = () => process.getBuiltinModule("node:zlib");
