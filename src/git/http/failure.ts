/** What an answer that is not the one asked for means, as a typed error. `name`: the server, for messages. */
import { AgentqError } from "../../errors.ts";
import type { HttpResponse } from "./client.ts";

/**
 * The server wants a credential; `had`: it was given one. `withheld`: the url that redirected there, and whose
 * credential stayed behind.
 */
export function unauthorized(
  name: string,
  had: boolean,
  withheld: string | null = null,
): AgentqError {
  const what = had
    ? "does not accept the credential it was given"
    : "asks for a credential, and there is none";
  if (withheld !== null && !had) {
    return new AgentqError(
      "auth-required",
      `${name} asks for a credential. ${withheld} redirects there, and what was given for that isn't sent elsewhere.`,
      { hint: `Use the url itself that it redirects to.`, details: { status: 401 } },
    );
  }
  return new AgentqError("auth-required", `${name} ${what}.`, { details: { status: 401 } });
}

/** The error of any other status. `what` was asked of it: "the push". */
export async function failureOf(
  response: HttpResponse,
  name: string,
  what: string,
): Promise<AgentqError> {
  const { status } = response;
  const words = await drain(response);
  const retryAfter = pauseOf(response.headers.get("retry-after"));
  const details = {
    status,
    ...(words === "" ? {} : { remoteOutput: words }),
    ...(retryAfter === null ? {} : { retryAfter }),
  };
  if (status === 403) {
    return new AgentqError("forbidden", `${name} forbids ${what} (HTTP 403).`, { details });
  }
  if (status === 404 || status === 410) {
    return new AgentqError(
      "origin-not-found",
      `There is no repository at ${name} (HTTP ${status}).`,
      {
        details,
        hint:
          "Check the url. Servers also say so where a credential is missing or lacks the right.",
      },
    );
  }
  if (status === 407) {
    return new AgentqError("auth-required", "The proxy asks for a user name and password.", {
      details,
      hint: "Put them into the proxy's url (http.proxy or http_proxy).",
    });
  }
  if (status === 413) {
    return new AgentqError(
      "push-too-large",
      `${name} refuses a request this large (HTTP 413).`,
      {
        details,
      },
    );
  }
  if (status === 411) {
    return new AgentqError("server-error", `${name} wants to know a request's length first.`, {
      details,
      hint: "Set http.postBuffer above the size of a push: then it is sent in one piece.",
    });
  }
  const retryable = status >= 500 || status === 429 || status === 408;
  return new AgentqError("server-error", `${name} answered ${what} with HTTP ${status}.`, {
    details,
    retryable,
  });
}

/** `Retry-After` in seconds from now: it is a number of them, or a date. */
function pauseOf(header: string | undefined): number | null {
  if (header === undefined) return null;
  if (/^\d{1,9}$/.test(header)) return Number(header);
  const at = Date.parse(header);
  return Number.isNaN(at) ? null : Math.max(0, Math.ceil((at - Date.now()) / 1000));
}

/** @throws `protocol-error` when the answer isn't of the type `wanted` */
export async function expectType(
  response: HttpResponse,
  wanted: string,
  name: string,
): Promise<void> {
  const type = (response.headers.get("content-type") ?? "").split(";")[0]!.trim().toLowerCase();
  if (type === wanted) return;
  await drain(response);
  throw new AgentqError(
    "protocol-error",
    `${name} does not speak git's smart protocol: it answered with ${JSON.stringify(type)}.`,
  );
}

/** Reads an error's body to its end, keeping the beginning where it is text for people. */
export async function drain(response: HttpResponse): Promise<string> {
  let text = "";
  let size = 0;
  const plain = /^(text\/plain\b|$)/i.test(response.headers.get("content-type") ?? "");
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
