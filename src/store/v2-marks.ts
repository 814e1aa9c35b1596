/** Telling what belongs to a v2 store, so that nothing else is kept in it. */
import { join, sep } from "node:path";
import { AgentqError } from "../errors.ts";
import { realPath } from "../platform/directory.ts";
import { nodeFiles } from "../platform/files.ts";
import { lstatOrNull } from "./admit.ts";
import { NAMESPACE } from "./layout.ts";

/** Throws `v2-directory` where a v2 store lies in the directory, or the directory in a v2 store. */
export function refuseStore(directory: string): void {
  refuseInsideStore(directory);
  refuseInsideStore(realPath(directory));
  if (holdsStore(directory)) throw v2Directory(directory, `${directory} holds a v2 store`);
}

/** Throws `v2-directory` where the path, as it is spelt, is or lies in what a v2 store keeps to itself. */
export function refuseInsideStore(path: string): void {
  // What an interrupted initialisation left is set aside under a longer name.
  const parts = path.split(sep);
  const at = parts.findIndex((part) => part === NAMESPACE || part.startsWith(`${NAMESPACE}.`));
  if (at < 0) return;
  const store = parts.slice(0, at).join(sep) || sep;
  throw v2Directory(path, `${path} lies in a v2 store, which keeps it to itself`, {
    hint: `The store is ${store}: use store:${store}, or another directory.`,
  });
}

/** Whether a v2 store, whole or not, lies in the directory. */
export function holdsStore(directory: string): boolean {
  return lstatOrNull(nodeFiles, join(directory, NAMESPACE)) !== null;
}

function v2Directory(path: string, message: string, hint: { hint?: string } = {}): AgentqError {
  return new AgentqError("v2-directory", message, { ...hint, details: { path } });
}
