/** Where everything in a store lies. Callers' names never become paths: only tokens do. */
import { join } from "node:path";

export const NAMESPACE = ".fs-safe-queue-v2";
export const LOCK_NAME = ".state-transfer.lock";
export const PROTOCOL = "fs-safe-json-queue";
export const VERSION = 2;

export const DIRECTORY_MODE = 0o700;
export const FILE_MODE = 0o600;

export const TOKEN_PATTERN = /^[0-9a-f]{32}$/;

export interface StorePaths {
  readonly root: string;
  readonly namespace: string;
  readonly format: string;
  readonly state: string;
  readonly objects: string;
  readonly lock: string;
}

export function storePaths(root: string): StorePaths {
  const namespace = join(root, NAMESPACE);
  return {
    root,
    namespace,
    format: join(namespace, "format.json"),
    state: join(namespace, "state.json"),
    objects: join(namespace, "objects"),
    lock: join(namespace, LOCK_NAME),
  };
}

export function objectDirectory(paths: StorePaths, object: string): string {
  return join(paths.objects, object);
}

export function payloadPath(paths: StorePaths, object: string): string {
  return join(paths.objects, object, "payload.json");
}
