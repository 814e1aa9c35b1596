/** Percent escapes in urls, undone as git undoes them. */
import { Buffer } from "node:buffer";

/**
 * `%41` is `A`; a percent sign that begins no escape stands for itself.
 * @returns null where the bytes that come out are no UTF-8
 */
export function urlDecoded(text: string): string | null {
  if (!text.includes("%")) return text;
  const bytes = Buffer.from(
    text.replace(
      /%([0-9a-f]{2})|[^\x00-\x7f]+/gi,
      (part, hex?: string) =>
        hex === undefined
          ? Buffer.from(part, "utf8").toString("latin1")
          : String.fromCharCode(parseInt(hex, 16)),
    ),
    "latin1",
  );
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}
