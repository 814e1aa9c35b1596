/** What Redis and its client answer, as agentq's errors. */
import { AgentqError, type ErrorCode } from "../../../errors.ts";
import { noQueue } from "../shared.ts";

/** Answers that say that nothing was executed and that waiting may help. */
const LATER = /^(LOADING|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|READONLY|MOVED|ASK|BUSY) ?/;
/** The last one is what a script hears that may not run one of its commands. */
const DENIED =
  /^(NOAUTH|WRONGPASS|NOPERM|ERR invalid password|ERR AUTH|ERR Client sent AUTH|(ERR )?The user executing the script can't)/;
const CODES: readonly [RegExp, ErrorCode][] = [
  [/^(OOM|MISCONF|NOREPLICAS) /, "backend-full"],
  [DENIED, "backend-denied"],
  [LATER, "backend-unreachable"],
];
const TLS =
  /certificate|CERT_|self[- ]signed|SELF_SIGNED|ERR_TLS|ERR_SSL|alert|UnknownIssuer|NotValidForName/i;

/** The client's own words for a call that it has not sent. */
const UNSENT = /^(Stream isn't writeable|Cluster isn't ready)/;

/** True when nothing was executed, as the server said or since nothing was sent, and may be in a moment. */
export function isPassing(error: unknown): boolean {
  return error instanceof Error && (LATER.test(error.message) || UNSENT.test(error.message));
}

/** True when another attempt to connect will end the same way: a wrong password, a wrong certificate. */
export function isFinal(error: Error): boolean {
  return isDenied(error) || isTls(error);
}

function isDenied(error: Error): boolean {
  return DENIED.test(error.message);
}

function isTls(error: Error): boolean {
  return TLS.test(`${(error as { code?: unknown }).code ?? ""} ${error.message}`);
}

/** No connection could be made. */
export function connectFault(error: Error | null, label: string, timeoutMs: number): AgentqError {
  if (error !== null && isTls(error)) {
    return new AgentqError(
      "backend-denied",
      `${label}: the TLS certificate was not accepted: ${error.message}`,
      {
        cause: error,
        hint: "Check the server's name and certificate, or name its authority with ?ca=FILE.",
      },
    );
  }
  if (error !== null && isDenied(error)) {
    return new AgentqError("backend-denied", `${label}: ${firstLine(error)}`, { cause: error });
  }
  const why = error === null ? `no connection within ${timeoutMs} ms` : firstLine(error);
  return new AgentqError("backend-unreachable", `${label}: ${why}`, { cause: error ?? undefined });
}

/**
 * A call failed. An answer of the server says what happened; everything else (the connection broke, no
 * answer in time) leaves open whether a call that changes something was executed.
 */
export function callFault(
  error: unknown,
  label: string,
  call: string,
  readOnly: boolean,
): AgentqError {
  if (!(error instanceof Error)) {
    return new AgentqError("backend-error", `${label}: ${String(error)}`);
  }
  const message = firstLine(error);
  const missing = /NOQUEUE(?: (\S+))?/.exec(error.message);
  if (missing) return noQueue(missing[1] ?? call);
  if (error.name === "ReplyError") {
    const code = CODES.find(([words]) => words.test(error.message))?.[1] ?? "backend-error";
    return new AgentqError(code, `${label}: ${message}`, { cause: error });
  }
  return new AgentqError(
    readOnly || UNSENT.test(message) ? "backend-unreachable" : "backend-outcome-unknown",
    `${label}: ${call}: ${message}`,
    { cause: error },
  );
}

/** Servers put script sources and addresses after the first line. */
function firstLine(error: Error): string {
  return (error.message.split("\n")[0] ?? "").slice(0, 300) || error.name;
}
