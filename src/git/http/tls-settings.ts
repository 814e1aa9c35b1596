/** Whom to trust and how to show who we are, as `http.ssl*` and the environment say. */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { AgentqError } from "../../errors.ts";
import {
  checkAuthorities,
  checkClientCertificate,
  hasPrivateKey,
  type TlsFile,
} from "../../platform/tls-files.ts";
import { parseBoolean } from "../config-file.ts";
import { expandHome } from "../config-sources.ts";
import type { HttpSettings } from "./settings.ts";
import type { TlsSettings } from "./socket.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** Where systems keep the authorities they trust. */
const SYSTEM_BUNDLES = [
  "/etc/ssl/certs/ca-certificates.crt",
  "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/ssl/cert.pem",
];

/**
 * Trust and client certificate.
 * @throws `config-invalid` naming the setting, for a file that can't be read or used
 */
export function tlsSettings(settings: HttpSettings, env: Env): TlsSettings {
  const load = ({ setting, path }: { setting: string; path: string }): TlsFile => {
    try {
      return { setting, path, data: readFileSync(expandHome(path, env)) };
    } catch (cause) {
      const code = (cause as { code?: string }).code;
      const message = `${setting} names ${path}, which can't be read (${code || cause}).`;
      throw new AgentqError("config-invalid", message, { cause });
    }
  };
  /** A file by a variable or a setting, where one is given. */
  const named = (variable: string, key: string) => {
    const [own, text] = [env[variable], settings.get(key)];
    if (own !== undefined) return { setting: variable, path: own };
    return text === null ? null : { setting: `http.${key}`, path: text };
  };
  const off = env.GIT_SSL_NO_VERIFY;
  const verify = off !== undefined && parseBoolean(off) !== false && off !== ""
    ? false
    : settings.boolean("sslVerify", true);
  const cert = named("GIT_SSL_CERT", "sslCert");
  const client = cert?.path ? load(cert) : null;
  const key = client && named("GIT_SSL_KEY", "sslKey");
  const secret = key?.path ? load(key) : client;
  if (client !== null && secret === client && !hasPrivateKey(client.data)) {
    throw new AgentqError(
      "config-invalid",
      `${client.setting} names ${client.path}, which holds no private key, and http.sslKey names none.`,
      { hint: "Name the file of its key: http.sslKey, or GIT_SSL_KEY." },
    );
  }
  if (client !== null && secret !== null) checkClientCertificate(client, secret);
  const authorities = verify ? authorityFiles(named("GIT_SSL_CAINFO", "sslCAInfo"), env, load) : [];
  if (verify) authorities.push(...certificatesIn(named("GIT_SSL_CAPATH", "sslCAPath"), env, load));
  return {
    verify,
    ...(authorities.length > 0 ? { ca: authorities.map(({ data }) => data) } : {}),
    ...(client && secret ? { cert: client.data, key: secret.data } : {}),
  };
}

/** The lists of authorities: one that is named stands for itself, and the system's has company. */
function authorityFiles(
  named: { setting: string; path: string } | null,
  env: Env,
  load: (of: { setting: string; path: string }) => TlsFile,
): TlsFile[] {
  const file = env.SSL_CERT_FILE;
  const own = named ?? (file === undefined ? null : { setting: "SSL_CERT_FILE", path: file });
  if (own !== null) return own.path === "" ? [] : [checked(load(own))];
  const bundle = SYSTEM_BUNDLES.find((path) => existsSync(path));
  // Known to Node programs beside the system's own.
  const extra = env.NODE_EXTRA_CA_CERTS;
  return [
    ...(bundle === undefined ? [] : [load({ setting: "This system", path: bundle })]),
    ...(extra ? [checked(load({ setting: "NODE_EXTRA_CA_CERTS", path: extra }))] : []),
  ];
}

function checked(file: TlsFile): TlsFile {
  checkAuthorities(file);
  return file;
}

/** The certificates of a directory of authorities; what else is there is passed over, as OpenSSL does. */
function certificatesIn(
  named: { setting: string; path: string } | null,
  env: Env,
  load: (of: { setting: string; path: string }) => TlsFile,
): TlsFile[] {
  if (!named?.path) return [];
  const { setting } = named;
  const directory = expandHome(named.path, env);
  let paths: string[];
  try {
    paths = readdirSync(directory).map((name) => join(directory, name));
  } catch (cause) {
    const code = (cause as { code?: string }).code;
    throw new AgentqError("config-invalid", `${setting} can't be read (${code}).`, { cause });
  }
  return paths
    .filter((path) => statSync(path, { throwIfNoEntry: false })?.isFile() === true)
    .map((path) => load({ setting, path }))
    .filter((file) => {
      try {
        return checked(file);
      } catch {
        return false;
      }
    });
}
