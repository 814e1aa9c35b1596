/** Who and when: the `Name <mail> seconds zone` lines of commits and tags. */
import { Buffer } from "node:buffer";

export interface Identity {
  readonly name: string;
  readonly email: string;
  /** Seconds since 1970, UTC. */
  readonly seconds: number;
  /** `+hhmm` or `-hhmm`. */
  readonly timezone: string;
}

/**
 * Reads an identity line leniently, as git does for old and broken commits: what is missing is empty,
 * 0 or `+0000`. The line is a byte string; name and address are decoded as UTF-8.
 */
export function parseIdentity(line: string): Identity {
  const open = line.indexOf("<");
  const close = line.indexOf(">", open + 1);
  const name = open < 0 ? line : line.slice(0, open);
  const email = open < 0 || close < 0 ? "" : line.slice(open + 1, close);
  const when = /(\d+)(?: +([+-]\d{4}))?\s*$/.exec(line.slice(line.lastIndexOf(">") + 1));
  const utf8 = (bytes: string) => Buffer.from(bytes, "latin1").toString("utf8");
  return {
    name: utf8(name.trim()),
    email: utf8(email.trim()),
    seconds: when ? Number(when[1]) : 0,
    timezone: when?.[2] ?? "+0000",
  };
}

/** Writes an identity line (a byte string). What would break the line is left out, as git does. */
export function formatIdentity(identity: Identity): string {
  const clean = (text: string) => {
    const plain = text.replace(/[<>\n\0]/g, "").replace(/^[\s\x00-\x1f.,:;"'\\]+/, "")
      .replace(/[\s\x00-\x1f.,:;"'\\]+$/, "");
    return Buffer.from(plain, "utf8").toString("latin1");
  };
  return `${clean(identity.name)} <${
    clean(identity.email)
  }> ${identity.seconds} ${identity.timezone}`;
}

/** The seconds of an identity line; 0 when there are none that can be read. */
export function identitySeconds(line: string): number {
  const close = line.lastIndexOf(">");
  const value = Number.parseInt(line.slice(close + 1), 10);
  return Number.isSafeInteger(value) && value > 0 ? value : 0;
}
