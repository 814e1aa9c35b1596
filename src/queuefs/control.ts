/**
 * Queues as a tree of files: QueueFS's own interface, read and written by path.
 *
 * ```
 * QUEUE/enqueue   write   the bytes become a message; answers its id
 * QUEUE/dequeue   read    {"id":"…","data":"…"} of the next message, {} when there is none
 * QUEUE/ack       write   the id of a message that was dequeued through here
 * QUEUE/peek      read    as dequeue, and changes nothing
 * QUEUE/size      read    how many are pending
 * QUEUE/status    read    {"pending":3,"processing":2} of one snapshot
 * QUEUE/messages  read    every unacknowledged message
 * QUEUE/clear     write   removes them all; answers how many
 * ```
 */
import { Buffer } from "node:buffer";
import { AgentqError } from "../errors.ts";
import { ackOrThrow, noQueue } from "./backends/shared.ts";
import type { QueueBackend } from "./contract.ts";
import { checkQueueName, CONTROL_NAMES, type ControlName, isControlName, quoted } from "./names.ts";
import { callerOwner } from "./owner.ts";
import { messageDocument, textOf } from "./payload.ts";

export interface FileInfo {
  readonly name: string;
  readonly isDirectory: boolean;
  /** Permission bits: 0o755 for queues, 0o444 to read, 0o222 to write. */
  readonly mode: number;
  readonly size: 0;
}

export interface QueueFs {
  read(path: string): Promise<Uint8Array>;
  /** Returns the answer, which is empty for `ack`. */
  write(path: string, data: Uint8Array): Promise<string>;
  /** Makes a queue. Throws `queue-exists`. */
  mkdir(path: string): Promise<void>;
  readdir(path: string): Promise<FileInfo[]>;
  stat(path: string): Promise<FileInfo>;
  /** Removes a queue and all below it; returns their names. */
  removeAll(path: string): Promise<string[]>;
}

export interface QueueFsOptions {
  /** In whose name `dequeue` takes and `ack` settles; a caller named `queuefs` unless given. */
  readonly owner?: string;
  /** How long a message that was read may take to be acked, in milliseconds; 300,000 unless given. */
  readonly leaseMs?: number;
}

const WRITABLE: readonly ControlName[] = ["enqueue", "clear", "ack"];

export function queueFs(backend: QueueBackend, options: QueueFsOptions = {}): QueueFs {
  const { owner = callerOwner("queuefs"), leaseMs = 300_000 } = options;

  const read = async (queue: string, operation: ControlName): Promise<string> => {
    switch (operation) {
      case "dequeue": {
        const [message] = await backend.dequeue(queue, { owner, leaseMs });
        return JSON.stringify(message ? messageDocument(message) : {});
      }
      case "peek": {
        const message = await backend.peek(queue);
        return JSON.stringify(message ? messageDocument(message) : {});
      }
      case "size":
        return String((await backend.status(queue)).pending);
      case "status": {
        const { pending, processing } = await backend.status(queue);
        return JSON.stringify({ pending, processing });
      }
      case "messages":
        return JSON.stringify((await backend.messages(queue)).map(messageDocument));
      default:
        throw invalid(`${queue}/${operation}`, "it is written, not read");
    }
  };

  const write = async (
    queue: string,
    operation: ControlName,
    data: Uint8Array,
  ): Promise<string> => {
    switch (operation) {
      case "enqueue":
        return (await backend.enqueue(queue, [{ data }]))[0]!;
      case "ack":
        await ackOrThrow(backend, queue, [{ id: (textOf(data) ?? "").trim(), owner }]);
        return "";
      case "clear":
        return String(await backend.clear(queue));
      default:
        throw invalid(`${queue}/${operation}`, "it is read, not written");
    }
  };

  return {
    read: async (path) => {
      const { queue, operation } = controlPath(path);
      return Buffer.from(await read(queue, operation), "utf8");
    },
    write: async (path, data) => {
      const { queue, operation } = controlPath(path);
      return await write(queue, operation, data);
    },
    mkdir: async (path) => {
      const queue = checkQueueName(segments(path).join("/"));
      if (!await backend.create(queue)) {
        throw new AgentqError("queue-exists", `there is a queue ${quoted(queue)} already`);
      }
    },
    readdir: async (path) => {
      const queue = segments(path).join("/");
      if (queue === "") return children(await backend.list(), "").map(directory);
      const names = await backend.list(checkQueueName(queue));
      if (names.length === 0) throw noQueue(queue);
      const files = names.includes(queue) ? CONTROL_NAMES.map(control) : [];
      return [...children(names, `${queue}/`).map(directory), ...files];
    },
    stat: async (path) => {
      const parts = segments(path);
      const last = parts.at(-1);
      if (last === undefined) return directory("/");
      const isControl = isControlName(last);
      const queue = checkQueueName((isControl ? parts.slice(0, -1) : parts).join("/"));
      const names = await backend.list(queue);
      if (isControl ? !names.includes(queue) : names.length === 0) throw noQueue(queue);
      return isControl ? control(last) : directory(last);
    },
    removeAll: async (path) => {
      const queue = segments(path).join("/");
      if (queue === "") throw invalid("/", "the root can't be removed");
      return await backend.remove(checkQueueName(queue));
    },
  };
}

function directory(name: string): FileInfo {
  return { name, isDirectory: true, mode: 0o755, size: 0 };
}

function control(name: ControlName): FileInfo {
  return { name, isDirectory: false, mode: WRITABLE.includes(name) ? 0o222 : 0o444, size: 0 };
}

/** The next segments below a prefix, each once. */
function children(names: readonly string[], prefix: string): string[] {
  const below = names.filter((name) => name.startsWith(prefix));
  return [...new Set(below.map((name) => name.slice(prefix.length).split("/")[0]!))];
}

/** The queue and the operation that a path names. Throws `queue-path-invalid`. */
export function controlPath(path: string): { queue: string; operation: ControlName } {
  const parts = segments(path);
  const operation = parts.at(-1) ?? "";
  if (!isControlName(operation)) {
    throw invalid(path, `it doesn't end in one of ${CONTROL_NAMES.join(", ")}`);
  }
  return { queue: checkQueueName(parts.slice(0, -1).join("/")), operation };
}

/** A leading and a trailing slash mean nothing. */
function segments(path: string): string[] {
  const trimmed = path.replace(/^\//, "").replace(/\/$/, "");
  return trimmed === "" ? [] : trimmed.split("/");
}

function invalid(path: string, problem: string): AgentqError {
  return new AgentqError("queue-path-invalid", `${quoted(path)}: ${problem}`);
}
