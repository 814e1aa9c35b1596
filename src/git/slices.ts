/**
 * Reading files by position: slices of packs and their indexes, kept in one cache of bounded size, over
 * descriptors of bounded number. Nothing here reads a whole file, and nothing is mapped.
 */
import { Buffer } from "node:buffer";
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { AgentqError } from "../errors.ts";
import { createBoundedCache } from "./bounded-cache.ts";

/** Slices no longer than this are worth keeping. */
const KEEP = 256 * 1024;

/** How far apart the cached windows of a pack begin; each is twice as long, so that entries fit. */
const STRIDE = 64 * 1024;

/** What is read where nothing was read before: enough for a commit and its neighbours. */
const FIRST = 4096;

/** Thrown when a file is gone that was there when its directory was listed: another git repacked. */
export class FileVanished extends Error {
  constructor(readonly path: string) {
    super(`${path} is gone`);
  }
}

export interface SliceFile {
  readonly path: string;
  /** Bytes in the file. */
  size(): number;
  /** Exactly these bytes, cached under their offset: ask for an offset always with one length. */
  chunk(offset: number, length: number): Buffer;
  /** Up to `length` bytes at `offset` (fewer at the end), from windows that neighbours share. */
  window(offset: number, length: number): Buffer;
  close(): void;
}

export interface SlicePool {
  open(path: string): SliceFile;
  /** Closes every descriptor and forgets every slice; files opened from the pool stay usable. */
  clear(): void;
}

interface Window {
  readonly start: number;
  readonly data: Buffer;
}

/** @param budget bytes of slices kept; @param maxOpen descriptors held at once */
export function createSlicePool(budget: number, maxOpen = 128): SlicePool {
  const cache = createBoundedCache(budget);
  const descriptors = new Map<string, { fd: number; size: number }>();

  function descriptor(path: string): { fd: number; size: number } {
    const known = descriptors.get(path);
    if (known) return known;
    let fd: number;
    try {
      fd = openSync(path, "r");
    } catch (cause) {
      const code = (cause as { code?: string }).code;
      if (code === "ENOENT" || code === "ESTALE") throw new FileVanished(path);
      throw new AgentqError("io-error", `Cannot open ${path} (${code || cause}).`, {
        cause,
        details: { path },
      });
    }
    const opened = { fd, size: fstatSync(fd).size };
    for (const [oldest, { fd: old }] of descriptors) {
      if (descriptors.size < maxOpen) break;
      closeSync(old);
      descriptors.delete(oldest);
    }
    descriptors.set(path, opened);
    return opened;
  }

  function readAt(path: string, offset: number, length: number): Buffer {
    const { fd } = descriptor(path);
    const data = Buffer.allocUnsafeSlow(length);
    let done = 0;
    while (done < length) {
      let got: number;
      try {
        got = readSync(fd, data, done, length - done, offset + done);
      } catch (cause) {
        const code = (cause as { code?: string }).code;
        if (code === "ESTALE") {
          forget(path);
          throw new FileVanished(path);
        }
        throw new AgentqError("io-error", `Cannot read ${path} (${code || cause}).`, {
          cause,
          details: { path },
        });
      }
      if (got === 0) break;
      done += got;
    }
    return data.subarray(0, done);
  }

  function forget(path: string): void {
    const known = descriptors.get(path);
    if (!known) return;
    descriptors.delete(path);
    closeSync(known.fd);
  }

  function open(path: string): SliceFile {
    // The slice used last answers most calls; looking here first spares building a key.
    let last: Window | undefined;
    const chunks = cache.part<Window>();
    const windows = cache.part<Window>();
    const chunk = (offset: number, length: number): Buffer => {
      if (last && last.start === offset && last.data.length === length) return last.data;
      const hit = chunks.get(offset);
      if (hit && hit.data.length === length) return (last = hit).data;
      const data = readAt(path, offset, length);
      if (data.length < length) {
        throw new AgentqError("repository-corrupt", `${path} is cut off.`, { details: { path } });
      }
      last = { start: offset, data };
      if (length <= KEEP) chunks.set(offset, last, length);
      return data;
    };
    const inside = (window: Window | undefined, offset: number, length: number) =>
      window && offset >= window.start && offset + length <= window.start + window.data.length
        ? window.data.subarray(offset - window.start, offset - window.start + length)
        : undefined;
    const window = (offset: number, wanted: number): Buffer => {
      const length = Math.max(0, Math.min(wanted, descriptor(path).size - offset));
      const again = inside(last, offset, length);
      if (again) return again;
      if (length > STRIDE) return readAt(path, offset, length);
      const region = Math.floor(offset / STRIDE);
      const hit = windows.get(region);
      const found = inside(hit, offset, length);
      if (found) {
        last = hit;
        return found;
      }
      // One small read where nothing was asked before; a second question there brings the region.
      last = hit === undefined
        ? { start: offset, data: readAt(path, offset, Math.max(length, FIRST)) }
        : { start: region * STRIDE, data: readAt(path, region * STRIDE, 2 * STRIDE) };
      windows.set(region, last, last.data.length);
      return inside(last, offset, length) ?? last.data.subarray(offset - last.start);
    };
    return {
      path,
      size: () => descriptor(path).size,
      chunk,
      window,
      close: () => {
        last = undefined;
        chunks.clear();
        windows.clear();
        forget(path);
      },
    };
  }

  return {
    open,
    clear() {
      for (const { fd } of descriptors.values()) closeSync(fd);
      descriptors.clear();
      cache.clear();
    },
  };
}
