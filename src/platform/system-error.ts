/** Errors of the operating system that nobody put into words where they arose. */
import { AgentqError } from "../errors.ts";
import { ioError } from "./durable.ts";

/** What a system call does, to a person; others are told by their name. */
const DOING: Readonly<Record<string, string>> = {
  access: "look at",
  lstat: "look at",
  stat: "look at",
  statfs: "look at",
  readlink: "read",
  scandir: "list",
  readdir: "list",
  mkdir: "make the directory",
  mkdtemp: "make the directory",
  rmdir: "remove",
  unlink: "remove",
};

/** `io-error` with errno, system call and path, or null where `thrown` comes from no system call. */
export function systemError(thrown: unknown): AgentqError | null {
  const error = thrown as { code?: unknown; message?: unknown; path?: unknown; syscall?: unknown };
  if (typeof error?.code !== "string" || typeof error.syscall !== "string") return null;
  const details = { errno: error.code, syscall: error.syscall };
  if (typeof error.path === "string" && error.path !== "") {
    return ioError(DOING[error.syscall] ?? error.syscall, error.path, thrown, details);
  }
  return new AgentqError("io-error", String(error.message), { cause: thrown, details });
}
