/** Sending a request over HTTP/1.1: its head, then its body by length or in chunks. */
import { Buffer } from "node:buffer";
import { AgentqError } from "../../errors.ts";
import type { HttpRequest } from "./client.ts";
import type { Connection } from "./socket.ts";
import { socketError } from "./socket-error.ts";

/** True for what can't stand in a header. */
export const hasControl = (text: string) => /[\x00-\x08\x0a-\x1f\x7f]/.test(text);

/**
 * Sends `request`, and stops with an error once `answered` says that the answer has come.
 * @param proxied headers for a proxy, which is told the whole url; null without one
 * @param onSent called right before the last bytes are handed over
 */
export async function send(
  connection: Connection,
  request: HttpRequest,
  proxied: Record<string, string> | null,
  answered: () => boolean,
  onSent: () => void,
): Promise<void> {
  const { url, body } = request;
  const target = proxied ? `${url.origin}${url.pathname}${url.search}` : url.pathname + url.search;
  const whole = body === undefined || body instanceof Uint8Array;
  // A configured Host stands in place of ours, as with git.
  const named = request.headers.some(([name]) => name.toLowerCase() === "host");
  const headers: (readonly [string, string])[] = [
    ...(named ? [] : [["Host", url.host] as const]),
    ...Object.entries(proxied ?? {}),
    ...request.headers,
  ];
  if (body instanceof Uint8Array) headers.push(["Content-Length", String(body.length)]);
  else if (body !== undefined) headers.push(["Transfer-Encoding", "chunked"]);
  let text = `${request.method} ${target} HTTP/1.1\r\n`;
  for (const [name, value] of headers) {
    // A line break would begin another header. Settings are checked where they are read.
    if (hasControl(name + value)) {
      throw new AgentqError("config-invalid", `The header ${JSON.stringify(name)} is malformed.`);
    }
    text += `${name}: ${value}\r\n`;
  }
  const head = Buffer.from(text + "\r\n", "utf8");
  if (whole) {
    onSent();
    await connection.write(body ? Buffer.concat([head, body]) : head);
    return;
  }
  await connection.write(head);
  let waiting: Uint8Array[] = [];
  let size = 0;
  const flush = async (last: boolean) => {
    const chunks: Uint8Array[] = size > 0
      ? [Buffer.from(`${size.toString(16)}\r\n`), ...waiting, Buffer.from("\r\n")]
      : [];
    if (last) {
      chunks.push(Buffer.from("0\r\n\r\n"));
      onSent();
    }
    waiting = [];
    size = 0;
    await connection.write(Buffer.concat(chunks));
  };
  for (const chunk of body()) {
    if (answered()) throw socketError({ code: "EPIPE" }, url.host);
    waiting.push(chunk);
    if ((size += chunk.length) >= 64 * 1024) await flush(false);
  }
  await flush(true);
}
