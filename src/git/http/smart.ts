/**
 * Smart HTTP: a GET for the advertisement of a service, a POST for each request to it; with redirects
 * and credentials as git handles them, and every status as a typed error.
 *
 *   GET info/refs?service=S ── 401 ▶ next credential, again │ 3xx ▶ new base (first request only)
 *      │ 200
 *   POST S ── 401 ▶ next credential, again │ 403, 404, 413, 5xx ▶ error │ 200 ▶ packets
 */
import type { Buffer } from "node:buffer";
import { AgentqError } from "../../errors.ts";
import type { GitConfig } from "../config.ts";
import { AGENT } from "../protocol/agent.ts";
import { redactUrl } from "../remote.ts";
import { createHttpClient, type HttpRequest, type HttpResponse } from "./client.ts";
import { connector } from "./connect.ts";
import { basic, type Credential, givenCredential, storedCredentials } from "./credentials.ts";
import { httpSettings, lowSpeedTime } from "./settings.ts";

export type Service = "git-upload-pack" | "git-receive-pack";

export interface SmartHttp {
  /** How the server is called in messages. */
  readonly name: string;
  advertise(
    service: Service,
    signal?: AbortSignal,
  ): Promise<AsyncGenerator<Buffer, void, undefined>>;
  call(
    service: Service,
    body: Uint8Array | (() => Iterable<Uint8Array>),
    options?: { version?: 2; signal?: AbortSignal; onSent?: () => void },
  ): Promise<AsyncGenerator<Buffer, void, undefined>>;
  close(): void;
}

export interface SmartOptions {
  readonly config: GitConfig;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly timeouts: { connect?: number; idle?: number; total?: number };
}

const MAX_REDIRECTS = 5;
const MAX_CREDENTIALS = 8;

export function openSmartHttp(url: URL, options: SmartOptions): SmartHttp {
  const { config, env, timeouts } = options;
  let base = new URL(url);
  base.hash = "";
  base.search = "";
  const client = createHttpClient({
    connect: connector(config, env, {
      connectMs: timeouts.connect ?? 30_000,
      idleMs: timeouts.idle ?? lowSpeedTime(httpSettings(config, base), env) ?? 120_000,
    }),
    totalMs: timeouts.total ?? 30 * 60_000,
  });
  let credential = givenCredential(base, env);
  /** The server's place as long as no redirect has led elsewhere: secrets stay there. */
  const home = base.origin;
  const name = () => redactUrl(base.href);

  function headersFor(extra: Readonly<Record<string, string>>): Record<string, string> {
    const headers: Record<string, string> = { "User-Agent": `git/${AGENT}`, ...extra };
    // Configured headers may carry a token: they go where they were configured for.
    let configured: string[] = [];
    for (const header of httpSettings(config, base).all("extraHeader")) {
      if (header === "") configured = [];
      else configured.push(header);
    }
    if (base.origin === home) {
      for (const header of configured) {
        const colon = header.indexOf(":");
        if (colon > 0) headers[header.slice(0, colon).trim()] = header.slice(colon + 1).trim();
      }
    }
    const named = Object.keys(headers).some((key) => key.toLowerCase() === "authorization");
    if (credential && !named) headers.Authorization = basic(credential);
    return headers;
  }

  /** Sends a request, with other credentials as long as the server asks for them. */
  async function authorized(
    make: () => HttpRequest,
    signal: AbortSignal | undefined,
  ): Promise<HttpResponse> {
    let more: AsyncGenerator<Credential, void, undefined> | undefined;
    for (let tries = 0;; tries++) {
      const response = await client.request(make());
      if (response.status !== 401) return response;
      await drain(response);
      if (tries >= MAX_CREDENTIALS) throw unauthorized(credential !== null);
      more ??= storedCredentials(base, { config, env, signal });
      const next = await more.next();
      if (next.done) throw unauthorized(credential !== null);
      credential = next.value;
    }
  }

  function unauthorized(had: boolean): AgentqError {
    return had
      ? new AgentqError("auth-required", `${name()} does not accept the credential it was given.`)
      : new AgentqError("auth-required", `${name()} asks for a credential, and there is none.`);
  }

  /** Follows the redirect of a first request; `suffix` must survive at the end of the new path. */
  function redirect(response: HttpResponse, requested: URL, suffix: string): void {
    const mode = httpSettings(config, base).get("followRedirects") ?? "initial";
    const location = response.headers.get("location");
    if (/^(false|no|off|0)$/i.test(mode) || location === undefined) {
      throw new AgentqError("protocol-error", `${name()} answers with a redirect.`, {
        hint: "Use the url it leads to, or allow redirects (http.followRedirects).",
        details: { status: response.status },
      });
    }
    let target: URL;
    try {
      target = new URL(location, requested);
    } catch {
      throw new AgentqError("protocol-error", `${name()} redirects to a malformed url.`);
    }
    const downgrade = requested.protocol === "https:" && target.protocol !== "https:";
    if (!/^https?:$/.test(target.protocol) || downgrade) {
      throw new AgentqError("forbidden", `${name()} redirects to ${redactUrl(target.href)}.`, {
        hint: "A redirect away from https is not followed: change the remote's url if it is right.",
      });
    }
    const path = target.pathname + target.search;
    if (!path.endsWith(suffix)) {
      throw new AgentqError("protocol-error", `${name()} redirects to ${redactUrl(target.href)}.`, {
        hint: "No git server is there: a login page, perhaps. Check the url and the credential.",
      });
    }
    const next = new URL(path.slice(0, -suffix.length) || "/", target);
    if (next.origin !== base.origin) credential = null;
    if (next.origin === base.origin) {
      next.username = base.username;
      next.password = base.password;
    }
    base = next;
  }

  async function failed(response: HttpResponse, what: string): Promise<AgentqError> {
    const { status } = response;
    const words = await drain(response);
    const details = { status, ...(words === "" ? {} : { remoteOutput: words }) };
    if (status === 403) {
      return new AgentqError("forbidden", `${name()} forbids ${what} (HTTP 403).`, { details });
    }
    if (status === 404 || status === 410) {
      return new AgentqError(
        "origin-not-found",
        `There is no repository at ${name()} (HTTP ${status}).`,
        {
          details,
          hint:
            "Check the url. Servers also say so where a credential is missing or lacks the right.",
        },
      );
    }
    if (status === 413) {
      return new AgentqError(
        "push-too-large",
        `${name()} refuses a request this large (HTTP 413).`,
        {
          details,
        },
      );
    }
    const retryable = status >= 500 || status === 429 || status === 408;
    return new AgentqError("server-error", `${name()} answered ${what} with HTTP ${status}.`, {
      details,
      retryable,
    });
  }

  const at = (suffix: string): URL => {
    const target = new URL(base);
    target.username = target.password = "";
    target.pathname = target.pathname.replace(/\/*$/, "");
    return new URL(target.href + suffix);
  };

  return {
    get name() {
      return name();
    },
    async advertise(service, signal) {
      const suffix = `/info/refs?service=${service}`;
      for (let redirects = 0;; redirects++) {
        let requested = at(suffix);
        const response = await authorized(() => {
          requested = at(suffix);
          return {
            method: "GET",
            url: requested,
            headers: headersFor({
              Accept: "*/*",
              Pragma: "no-cache",
              ...(service === "git-upload-pack" ? { "Git-Protocol": "version=2" } : {}),
            }),
            signal,
          };
        }, signal);
        if ([301, 302, 303, 307, 308].includes(response.status)) {
          await drain(response);
          if (redirects >= MAX_REDIRECTS) {
            throw new AgentqError("protocol-error", `${name()} redirects without end.`);
          }
          redirect(response, requested, suffix);
          continue;
        }
        if (response.status !== 200) throw await failed(response, `to read ${service}`);
        await expectType(response, `application/x-${service}-advertisement`, name());
        return response.body;
      }
    },
    async call(service, body, { version, signal, onSent } = {}) {
      const response = await authorized(() => ({
        method: "POST",
        url: at(`/${service}`),
        headers: headersFor({
          Accept: `application/x-${service}-result`,
          "Content-Type": `application/x-${service}-request`,
          ...(version === 2 ? { "Git-Protocol": "version=2" } : {}),
        }),
        body: typeof body === "function" ? body() : body,
        signal,
        onSent,
      }), signal);
      if (response.status !== 200) {
        throw await failed(response, service === "git-receive-pack" ? "the push" : "the request");
      }
      await expectType(response, `application/x-${service}-result`, name());
      return response.body;
    },
    close: () => client.close(),
  };
}

async function expectType(response: HttpResponse, wanted: string, name: string): Promise<void> {
  const type = (response.headers.get("content-type") ?? "").split(";")[0]!.trim().toLowerCase();
  if (type === wanted) return;
  await drain(response);
  throw new AgentqError(
    "protocol-error",
    `${name} does not speak git's smart protocol: it answered with ${JSON.stringify(type)}.`,
  );
}

/** Reads an error's body to its end, keeping the beginning where it is text for people. */
async function drain(response: HttpResponse): Promise<string> {
  let text = "";
  let size = 0;
  const plain = /^text\/plain\b/i.test(response.headers.get("content-type") ?? "");
  try {
    for await (const chunk of response.body) {
      if (plain && text.length < 2000) text += chunk.toString("utf8");
      // A server that goes on and on is cut off: closing the generator ends the connection.
      if ((size += chunk.length) > 256 * 1024) break;
    }
  } catch {
    // The status is what counts.
  }
  return text.slice(0, 2000).trim();
}
