/** The bytes of a pack that is being taken in, read by position from a file or from memory. */
import { Buffer } from "node:buffer";
import { fstatSync, readSync } from "node:fs";
import { crc32 } from "node:zlib";
import { AgentqError } from "../errors.ts";
import { cutOff } from "./pkt-line.ts";

/** Bytes read at once. */
export const WINDOW = 256 * 1024;

/** A complete pack, read by position. */
export interface PackSource {
  readonly size: number;
  /** Up to `length` bytes at `offset`; fewer only at the end. */
  read(offset: number, length: number): Buffer;
}

/** What is wrong with a pack; `from`: who sent it. */
export function corrupt(from: string | undefined, what: string, cause?: unknown): AgentqError {
  return new AgentqError("protocol-error", `The pack from ${from ?? "the server"} ${what}.`, {
    cause,
  });
}

/** A pack that isn't what was sent: `what` says how it shows. Without side bands an early end shows so. */
export function packCutOff(from: string | undefined, what: string): AgentqError {
  return cutOff(`The pack from ${from ?? "the server"}`, what);
}

/** A pack in a file. */
export function fileSource(fd: number): PackSource {
  const { size } = fstatSync(fd);
  let start = 0;
  let window: Buffer = Buffer.alloc(0);
  return {
    size,
    read(offset, length) {
      const wanted = Math.max(0, Math.min(length, size - offset));
      if (offset < start || offset + wanted > start + window.length) {
        const data = Buffer.allocUnsafeSlow(Math.min(Math.max(wanted, WINDOW), size - offset));
        let done = 0;
        while (done < data.length) {
          const got = readSync(fd, data, done, data.length - done, offset + done);
          if (got === 0) break;
          done += got;
        }
        start = offset;
        window = data.subarray(0, done);
      }
      return window.subarray(offset - start, offset - start + wanted);
    },
  };
}

/** The CRC of a stretch, `end` not included. */
export function crcOf(source: PackSource, start: number, end: number): number {
  let crc = 0;
  for (let at = start; at < end;) {
    const chunk = source.read(at, Math.min(WINDOW, end - at));
    crc = crc32(chunk, crc);
    at += chunk.length;
  }
  return crc;
}
