/** Reading an answer over HTTP/1.1: its head, and its body by length, in chunks or to the end. */
import { Buffer } from "node:buffer";
import { createGunzip, createInflate } from "node:zlib";
import { AgentqError } from "../../errors.ts";
import { cutOff } from "../pkt-line.ts";
import type { Connection } from "./socket.ts";

const MAX_HEAD = 64 * 1024;

export interface Head {
  readonly version: string;
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
}

/** The head of the final answer; null when the connection ended before its first byte. */
export async function readHead(connection: Connection, where: string): Promise<Head | null> {
  for (;;) {
    let data = Buffer.alloc(0);
    let end = -1;
    while (end < 0) {
      const chunk = await connection.read();
      if (chunk === null) {
        if (data.length === 0) return null;
        throw cutOff(where, "stopped in the middle of its answer");
      }
      data = Buffer.concat([data, chunk]);
      end = data.indexOf("\r\n\r\n");
      if (end < 0 && data.length > MAX_HEAD) throw malformed(where, "sent endless headers");
    }
    connection.unread(data.subarray(end + 4));
    const lines = data.toString("latin1", 0, end).split("\r\n");
    const first = /^HTTP\/(1\.[01]) (\d{3})(?: |$)/.exec(lines[0]!);
    if (!first) throw malformed(where, "did not answer in HTTP/1.1");
    const status = Number(first[2]);
    if (status >= 100 && status < 200) continue;
    const headers = new Map<string, string>();
    for (const line of lines.slice(1)) {
      const colon = line.indexOf(":");
      if (colon <= 0) throw malformed(where, "sent a malformed header");
      const name = line.slice(0, colon).toLowerCase();
      const value = line.slice(colon + 1).trim();
      const before = headers.get(name);
      headers.set(name, before === undefined ? value : `${before}, ${value}`);
    }
    return { version: first[1]!, status, headers };
  }
}

/** The body as it came; `finish` is told whether the connection can be used again. */
export async function* bodyOf(
  connection: Connection,
  head: Head,
  where: string,
  finish: (reusable: boolean) => void,
): AsyncGenerator<Buffer, void, undefined> {
  let complete = false;
  try {
    const length = head.headers.get("content-length");
    const coding = head.headers.get("transfer-encoding");
    if (head.status === 204 || head.status === 304) {
      complete = true;
    } else if (coding !== undefined) {
      if (!/\bchunked$/i.test(coding)) throw malformed(where, `uses the transfer coding ${coding}`);
      yield* chunked(connection, where);
      complete = true;
    } else if (length !== undefined) {
      if (!/^\d{1,15}$/.test(length)) throw malformed(where, "sent a malformed content length");
      for (let left = Number(length); left > 0;) {
        const chunk = await connection.read();
        if (chunk === null) throw cutOff(where, "stopped in the middle of its answer");
        connection.unread(chunk.subarray(left));
        const part = chunk.subarray(0, left);
        left -= part.length;
        yield part;
      }
      complete = true;
    } else {
      for (let chunk = await connection.read(); chunk; chunk = await connection.read()) yield chunk;
    }
  } finally {
    finish(complete);
  }
}

async function* chunked(
  connection: Connection,
  where: string,
): AsyncGenerator<Buffer, void, undefined> {
  let data: Buffer = Buffer.alloc(0);
  const more = async () => {
    const chunk = await connection.read();
    if (chunk === null) throw cutOff(where, "stopped in the middle of its answer");
    data = data.length === 0 ? chunk : Buffer.concat([data, chunk]);
  };
  const line = async (): Promise<string> => {
    for (let end;; await more()) {
      if ((end = data.indexOf("\r\n")) >= 0) {
        const text = data.toString("latin1", 0, end);
        data = data.subarray(end + 2);
        return text;
      }
      if (data.length > MAX_HEAD) throw malformed(where, "sent a malformed chunk");
    }
  };
  for (;;) {
    const size = /^([0-9a-fA-F]{1,12})\s*(;.*)?$/.exec(await line());
    if (!size) throw malformed(where, "sent a malformed chunk");
    let left = parseInt(size[1]!, 16);
    if (left === 0) break;
    while (left > 0) {
      if (data.length === 0) await more();
      const part = data.subarray(0, left);
      data = data.subarray(part.length);
      left -= part.length;
      yield part;
    }
    if (await line() !== "") throw malformed(where, "sent a malformed chunk");
  }
  // Trailers say nothing to us.
  while (await line() !== "");
  connection.unread(data);
}

/** The body without its content coding. @throws `protocol-error` */
export async function* decoded(
  raw: AsyncGenerator<Buffer, void, undefined>,
  head: Head,
  where: string,
): AsyncGenerator<Buffer, void, undefined> {
  const coding = (head.headers.get("content-encoding") ?? "identity").toLowerCase();
  if (coding === "identity") {
    yield* raw;
    return;
  }
  if (!["gzip", "x-gzip", "deflate"].includes(coding)) {
    await raw.return();
    throw malformed(where, `uses the content coding ${JSON.stringify(coding)}`);
  }
  const inflater = coding === "deflate" ? createInflate() : createGunzip();
  let failure: unknown = null;
  const feeding = (async () => {
    try {
      for await (const chunk of raw) {
        if (!inflater.write(chunk)) {
          await new Promise((resolve) => {
            inflater.once("drain", resolve);
            inflater.once("close", resolve);
          });
        }
      }
      inflater.end();
    } catch (error) {
      failure = error;
      inflater.destroy();
    }
  })();
  try {
    for await (const chunk of inflater) yield chunk as Buffer;
  } catch (cause) {
    if (failure === null) {
      throw (cause as { code?: string }).code === "Z_BUF_ERROR"
        ? cutOff(where, "stopped in the middle of its answer", cause)
        : malformed(where, "sent a body that does not decompress", cause);
    }
  } finally {
    inflater.destroy();
    await feeding;
  }
  if (failure !== null) throw failure;
}

function malformed(where: string, what: string, cause?: unknown): AgentqError {
  return new AgentqError("protocol-error", `${where} ${what}.`, { cause });
}
