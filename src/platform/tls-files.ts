/**
 * The files that TLS is set up with. Its libraries pass over what they can't read, or fail later and without a
 * name: so what can't be used is found here first, and told by the setting and the file.
 */
import type { Buffer } from "node:buffer";
import type { KeyObject, X509Certificate } from "node:crypto";
import { nodeCrypto } from "./builtins.ts";
import { AgentqError } from "../errors.ts";

export interface TlsFile {
  /** How the setting that names it is called: `http.sslCert`. */
  readonly setting: string;
  readonly path: string;
  readonly data: Buffer;
}

const block = (label: string) =>
  new RegExp(`-----BEGIN ${label}-----\\s[\\s\\S]*?-----END ${label}-----`, "g");
const CERTIFICATE = block("(?:X509 |TRUSTED )?CERTIFICATE");
const KEY = block("(?:[A-Z0-9]+ )*PRIVATE KEY");

const hasCertificate = (data: Buffer): boolean => data.toString("latin1").search(CERTIFICATE) >= 0;
/** True when there is a private key in PEM. */
export const hasPrivateKey = (data: Buffer): boolean => data.toString("latin1").search(KEY) >= 0;

/** Checks a file of authorities. @throws `config-invalid` where there is none, or one that can't be read */
export function checkAuthorities(file: TlsFile): void {
  const found = file.data.toString("latin1").match(CERTIFICATE) ?? [];
  if (found.length === 0) throw noCertificate(file);
  for (const one of found) certificateIn(file, one);
}

/** Checks a client's certificate and its key, which may be in the same file. @throws `config-invalid` */
export function checkClientCertificate(cert: TlsFile, key: TlsFile): void {
  if (!hasCertificate(cert.data)) throw noCertificate(cert);
  const text = key.data.toString("latin1").match(KEY)?.[0];
  if (text === undefined) {
    throw unusable(
      key,
      "holds no private key in PEM",
      `openssl pkey -inform DER -in ${key.path} -out OTHER turns a key in DER into it.`,
    );
  }
  if (/ENCRYPTED/.test(text)) {
    throw unusable(
      key,
      "holds an encrypted private key, and nobody is asked for its password",
      `openssl pkey -in ${key.path} -out OTHER writes it without one: keep that from others' eyes.`,
    );
  }
  let secret: KeyObject;
  try {
    secret = nodeCrypto().createPrivateKey(text);
  } catch (cause) {
    throw unusable(key, "holds a private key that can't be read", undefined, cause);
  }
  const certificate = certificateIn(cert, cert.data.toString("latin1").match(CERTIFICATE)![0]);
  if (certificate.checkPrivateKey(secret)) return;
  throw unusable(
    key,
    `holds another private key than that of the certificate in ${cert.path} (${cert.setting})`,
    "Name the key that the certificate was made for, and put the certificate before its chain.",
  );
}

function certificateIn(file: TlsFile, text: string): X509Certificate {
  try {
    return new (nodeCrypto().X509Certificate)(text);
  } catch (cause) {
    throw unusable(file, "holds a certificate that can't be read", undefined, cause);
  }
}

function noCertificate(file: TlsFile): AgentqError {
  return unusable(
    file,
    "holds no certificate in PEM",
    `openssl x509 -inform DER -in ${file.path} -out OTHER turns one in DER into it.`,
  );
}

function unusable(file: TlsFile, problem: string, hint?: string, cause?: unknown): AgentqError {
  const message = `${file.setting} names ${file.path}, which ${problem}.`;
  return new AgentqError("config-invalid", message, {
    cause,
    details: { path: file.path },
    ...(hint === undefined ? {} : { hint }),
  });
}

/** What a server has against the certificate of its client, in words; null when its error isn't about that. */
export function clientCertificateRefusal(error: unknown): string | null {
  const { code, message } = error as { code?: unknown; message?: unknown };
  const alert = /_ALERT_([A-Z_]+)/.exec(`${code ?? ""} ${message ?? ""}`)?.[1] ?? "";
  if (alert === "CERTIFICATE_REQUIRED") return "it wants a client certificate";
  if (alert === "HANDSHAKE_FAILURE") {
    return "it ended the handshake, for want of a client certificate or of a cipher that both know";
  }
  return /^(BAD|UNSUPPORTED)_CERTIFICATE|^CERTIFICATE_|^UNKNOWN_CA|^ACCESS_DENIED/.test(alert)
    ? `it does not accept the client's certificate (${alert.toLowerCase().replaceAll("_", " ")})`
    : null;
}
