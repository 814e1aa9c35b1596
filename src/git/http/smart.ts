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
import {
  basic,
  type Credential,
  givenCredential,
  type StoredCredential,
  storedCredentials,
  tellHelpers,
} from "./credentials.ts";
import { drain, expectType, failureOf, unauthorized } from "./failure.ts";
import { redirected } from "./redirect.ts";
import { prepared } from "./request-body.ts";
import { hasControl } from "./send.ts";
import { httpSettings, lowSpeed } from "./settings.ts";

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
  /** The remote's name, for remote.<name>.proxy; null for a url. */
  readonly remote?: string | null;
}

const MAX_REDIRECTS = 5;
const MAX_CREDENTIALS = 8;
const REDIRECTS = [301, 302, 303, 307, 308];

export function openSmartHttp(url: URL, options: SmartOptions): SmartHttp {
  const { config, env, timeouts } = options;
  let base = new URL(url);
  base.hash = "";
  base.search = "";
  const slow = timeouts.idle === undefined ? lowSpeed(httpSettings(config, base), env) : null;
  const limits = {
    connectMs: timeouts.connect ?? 30_000,
    idleMs: timeouts.idle ?? 120_000,
    ...slow,
  };
  const client = createHttpClient({
    connect: connector(config, env, limits, options.remote ?? null),
    totalMs: timeouts.total ?? 30 * 60_000,
  });
  const userAgent = env.GIT_HTTP_USER_AGENT || `git/${AGENT}`;
  if (hasControl(userAgent)) {
    throw new AgentqError("config-invalid", "GIT_HTTP_USER_AGENT has a control character in it.");
  }
  let credential: Credential | null = givenCredential(base, env);
  /** The credential in use where helpers are to be told of it, and whether they were. */
  let helped: StoredCredential | null = null;
  let told = false;
  /** The server's place as long as no redirect has led elsewhere: secrets stay there. */
  const home = base.origin;
  const name = () => redactUrl(base.href);

  /** `http.extraHeader`: it may carry a token, so it goes where it was configured for. */
  function configuredHeaders(): (readonly [string, string])[] {
    if (base.origin !== home) return [];
    const headers = httpSettings(config, base).all("extraHeader");
    return headers.slice(headers.lastIndexOf("") + 1).flatMap((header) => {
      if (hasControl(header)) {
        throw new AgentqError("config-invalid", "http.extraHeader has a control character in it.");
      }
      if (/^(content-length|transfer-encoding)\s*[:;]/i.test(header)) {
        throw new AgentqError(
          "config-invalid",
          `http.extraHeader may not set ${
            /^[\w-]+/.exec(header)![0]
          }, which says where a request ends.`,
        );
      }
      const colon = header.indexOf(":");
      return colon > 0 ? [[header.slice(0, colon).trim(), header.slice(colon + 1).trim()]] : [];
    });
  }

  const isAuthorization = ([name]: readonly [string, string]) => /^authorization$/i.test(name);

  function headersFor(extra: Readonly<Record<string, string>>): (readonly [string, string])[] {
    const configured = configuredHeaders();
    const named = new Set(configured.map(([name]) => name.toLowerCase()));
    const own: [string, string][] = Object.entries({
      "User-Agent": userAgent,
      "Accept-Encoding": "deflate, gzip",
      ...extra,
      ...(credential ? { Authorization: basic(credential) } : {}),
    });
    // A header without a value takes ours away and is none itself, as with curl.
    return [
      ...own.filter(([name]) => !named.has(name.toLowerCase())),
      ...configured.filter(([, value]) => value !== ""),
    ];
  }

  /** Sends a request, with other credentials as long as the server asks for them. */
  async function authorized(
    make: () => HttpRequest,
    signal: AbortSignal | undefined,
  ): Promise<HttpResponse> {
    const context = { config, env, ...(signal ? { signal } : {}) };
    let more: AsyncGenerator<StoredCredential, void, undefined> | undefined;
    for (let tries = 0;; tries++) {
      const response = await client.request(make());
      if (response.status !== 401) {
        if (helped && !told && response.status === 200) {
          told = true;
          await tellHelpers("store", base, helped, context);
        }
        return response;
      }
      await drain(response);
      if (configuredHeaders().some(isAuthorization)) {
        throw new AgentqError(
          "auth-required",
          `${name()} does not accept the Authorization of http.extraHeader.`,
          {
            hint: "Correct or remove that setting: while it is there, nothing else is tried.",
            details: { status: 401 },
          },
        );
      }
      if (helped) await tellHelpers("erase", base, helped, context);
      helped = null;
      if (tries >= MAX_CREDENTIALS) throw unauthorized(name(), credential !== null);
      more ??= storedCredentials(base, context);
      const next = await more.next();
      if (next.done) throw unauthorized(name(), credential !== null, withheld());
      credential = next.value;
      helped = next.value.helped ? next.value : null;
      told = false;
    }
  }

  /** Where a redirect has led away from, with a secret that is only for there; null where none was left behind. */
  function withheld(): string | null {
    const left = new URL(url);
    if (base.origin === home) return null;
    const had = givenCredential(left, env) !== null ||
      httpSettings(config, left).all("extraHeader").length > 0;
    return had ? redactUrl(left.href) : null;
  }

  const followRedirects = () => httpSettings(config, base).get("followRedirects") ?? "initial";

  /** Goes on from where the answer points. */
  function redirect(response: HttpResponse, requested: URL, suffix: string): void {
    const mode = followRedirects();
    const next = redirected(response, { base, requested, suffix, mode, name: name() });
    if (next.origin !== base.origin) credential = helped = null;
    base = next;
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
            repeatable: true,
            headers: headersFor({
              Accept: "*/*",
              Pragma: "no-cache",
              ...(service === "git-upload-pack" ? { "Git-Protocol": "version=2" } : {}),
            }),
            signal,
          };
        }, signal);
        if (REDIRECTS.includes(response.status)) {
          await drain(response);
          if (redirects >= MAX_REDIRECTS) {
            throw new AgentqError("protocol-error", `${name()} redirects without end.`);
          }
          redirect(response, requested, suffix);
          continue;
        }
        if (response.status !== 200) throw await failureOf(response, name(), `to read ${service}`);
        await expectType(response, `application/x-${service}-advertisement`, name());
        return response.body;
      }
    },
    async call(service, body, { version, signal, onSent } = {}) {
      const { content, encoding } = prepared(service, body, httpSettings(config, base));
      const suffix = `/${service}`;
      for (let redirects = 0;; redirects++) {
        const requested = at(suffix);
        const response = await authorized(() => ({
          method: "POST",
          url: requested,
          headers: headersFor({
            Accept: `application/x-${service}-result`,
            "Content-Type": `application/x-${service}-request`,
            ...encoding,
            ...(version === 2 ? { "Git-Protocol": "version=2" } : {}),
          }),
          body: content,
          repeatable: service === "git-upload-pack",
          signal,
          onSent,
        }), signal);
        if (response.status === 200) {
          await expectType(response, `application/x-${service}-result`, name());
          return response.body;
        }
        // Only these keep the method. Whoever redirects has done nothing yet.
        const always = /^(true|yes|on|1)$/i.test(followRedirects());
        const followed = always && [307, 308].includes(response.status);
        if (!followed || redirects >= MAX_REDIRECTS) {
          const what = service === "git-receive-pack" ? "the push" : "the request";
          throw await failureOf(response, name(), what);
        }
        await drain(response);
        redirect(response, requested, suffix);
      }
    },
    close: () => client.close(),
  };
}
