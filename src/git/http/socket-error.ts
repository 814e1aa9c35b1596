/** What goes wrong with a connection to a web server, as typed errors. */
import { AgentqError } from "../../errors.ts";
import { clientCertificateRefusal } from "../../platform/tls-files.ts";
import { whyUnreachable } from "../unreachable.ts";

const CERTIFICATE = /CERT|SIGNATURE|ISSUER|ALTNAME|SSL|TLS|VERIFY/;

const BY_SETTING =
  "http.sslCert and http.sslKey (or GIT_SSL_CERT and GIT_SSL_KEY) name the client's certificate and its key";

/**
 * A server that wants a client's certificate says so by TLS 1.3 after the handshake, and closes: what it says can be lost
 * where the request is on its way already, and the connection is just cut.
 */
export function perhapsForACertificate(error: AgentqError): AgentqError {
  return new AgentqError(error.code, error.message, {
    cause: error.cause ?? error,
    hint: `${error.hint} A server that wants a client's certificate may end so too: ${BY_SETTING}.`,
    ...(error.details && { details: error.details }),
  });
}

/** A socket's error as a typed one. `where` names the server without credentials. */
export function socketError(cause: unknown, where: string, handshaking = false): AgentqError {
  if (cause instanceof AgentqError) return cause;
  const code = (cause as { code?: string }).code ?? "";
  const words = cause instanceof Error ? cause.message : String(cause);
  const refusal = clientCertificateRefusal(cause);
  if (refusal !== null) {
    return new AgentqError("tls-error", `No connection to ${where}: ${refusal}.`, {
      cause,
      details: { errno: code },
      hint: `${BY_SETTING}.`,
    });
  }
  if (CERTIFICATE.test(code) || (handshaking && !/^E[A-Z]+$/.test(code))) {
    return new AgentqError("tls-error", `No trusted connection to ${where}: ${words}.`, {
      cause,
      details: { errno: code },
    });
  }
  return new AgentqError("origin-unreachable", `Can't reach ${where}: ${whyUnreachable(cause)}.`, {
    cause,
    details: { errno: code },
  });
}
