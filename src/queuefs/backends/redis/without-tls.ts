/**
 * A server that speaks no TLS takes a client's greeting for the beginning of a command and waits for its
 * end, as long as the client waits for an answer. So a connection that is slow to come about is compared
 * with a plain one.
 */
import { Buffer } from "node:buffer";
import { connect } from "node:net";
import { NO_TLS } from "./faults.ts";

/** In this time a connection over TLS mostly is there, over long distances too. */
const PATIENCE_MS = 400;

/** Calls `fail` when each of the hosts turns out to speak plainly. Returns how to stop looking. */
export function whenWithoutTls(
  hosts: readonly { readonly host: string; readonly port: number }[],
  fail: (error: Error) => void,
): () => void {
  const stopped = new AbortController();
  const timer = setTimeout(async () => {
    const plain = await Promise.all(hosts.map((each) => speaksPlainly(each, stopped.signal)));
    if (!stopped.signal.aborted && plain.every((each) => each)) fail(new Error(NO_TLS));
  }, PATIENCE_MS);
  return () => {
    clearTimeout(timer);
    stopped.abort();
  };
}

/** Whether a PING without TLS, and without a password, is answered as Redis does: by PONG or an error. */
function speaksPlainly(
  { host, port }: { readonly host: string; readonly port: number },
  signal: AbortSignal,
): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port });
    const end = (plain: boolean) => {
      socket.destroy();
      resolve(plain);
    };
    signal.addEventListener("abort", () => end(false), { once: true });
    socket.on("connect", () => socket.write("PING\r\n"));
    socket.on("data", (data) => end(/^[+-][A-Z]+/.test(Buffer.from(data).toString("latin1"))));
    socket.on("error", () => end(false));
    socket.on("close", () => end(false));
  });
}
