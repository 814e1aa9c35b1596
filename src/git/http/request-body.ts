/** A request's body as it is sent. */
import { Buffer } from "node:buffer";
import { gzipSync } from "node:zlib";
import type { httpSettings } from "./settings.ts";
import type { Service } from "./smart.ts";

/** A request larger than this is compressed, as git does it; packs are compressed already. */
const WORTH_COMPRESSING = 1024;

/** A request's body: compressed where that is worth it, whole where the server is said to want that. */
export function prepared(
  service: Service,
  body: Uint8Array | (() => Iterable<Uint8Array>),
  settings: ReturnType<typeof httpSettings>,
): { content: typeof body; encoding: Record<string, string> } {
  if (body instanceof Uint8Array) {
    const worth = service === "git-upload-pack" && body.length > WORTH_COMPRESSING;
    if (!worth) return { content: body, encoding: {} };
    return { content: gzipSync(body), encoding: { "Content-Encoding": "gzip" } };
  }
  const buffer = settings.integer("postBuffer") ?? 0;
  const chunks: Uint8Array[] = [];
  let size = 0;
  for (const chunk of buffer > 0 ? body() : []) {
    chunks.push(chunk);
    if ((size += chunk.length) > buffer) break;
  }
  return { content: size > 0 && size <= buffer ? Buffer.concat(chunks) : body, encoding: {} };
}
