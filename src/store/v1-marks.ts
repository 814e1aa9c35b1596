/** Telling a v1 queue directory by what `@openclaw/fs-safe` leaves in it. */
import type { FileSystem } from "../platform/files.ts";
import { ioError } from "../platform/durable.ts";
import type { StoreSite } from "./sites.ts";

const V1_NAME =
  /(?:^\.fs-safe-retirements$)|(?:^\.fs-safe-transfer-[0-9a-f]{32}\.lock$)|(?:\.(?:json|processing|delivered)$)/;

/** The first name in the directory that only a v1 queue would have, or null. */
export function findV1Mark(files: FileSystem<StoreSite>, directory: string): string | null {
  let names: string[];
  try {
    names = files.readdir(directory);
  } catch (error) {
    throw ioError("list", directory, error);
  }
  return names.find((name) => V1_NAME.test(name)) ?? null;
}
