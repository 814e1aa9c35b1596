/** Why a server can't be reached, in words. */

const WORDS: Readonly<Record<string, string>> = {
  ENOTFOUND: "its name is not known",
  EAI_AGAIN: "its name is not known",
  ECONNREFUSED: "nothing accepts connections there (ECONNREFUSED)",
  ECONNRESET: "it cut the connection (ECONNRESET)",
  EPIPE: "it cut the connection (EPIPE)",
  ETIMEDOUT: "it does not answer (ETIMEDOUT)",
  EHOSTUNREACH: "there is no way to it (EHOSTUNREACH)",
  ENETUNREACH: "there is no network (ENETUNREACH)",
};

/** The error of a socket; system errors that are not known here stay as they are called. */
export function whyUnreachable(cause: unknown): string {
  const { code, message } = cause as { code?: string | number; message?: string };
  // Of a number (ssh's reasons to hang up) nobody learns anything.
  if (typeof code !== "string") return message || String(code ?? cause);
  return WORDS[code] ?? (code || message || String(cause));
}
