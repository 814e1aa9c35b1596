/** agentq as a library: what the command line uses is what anyone can use. */
export * from "./src/errors.ts";
export type * from "./src/git/types.ts";
export type * from "./src/merge/types.ts";
