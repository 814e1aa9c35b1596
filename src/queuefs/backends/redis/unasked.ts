/**
 * A server that takes no more clients, or none from there, says so before anything is asked, and closes. What a client
 * writes meanwhile fails, and its words are lost for that: so it is listened to once more, without a word.
 */
import { Buffer } from "node:buffer";
import { connect } from "node:net";
import { NONE } from "./client-words.ts";

export interface Place {
  readonly host: string;
  readonly port: number;
}

/** It speaks at once, but may be far away. */
const PATIENCE_MS = 400;

/** True for what a connection ends with when it was closed at its beginning. */
export function isCutOff({ message }: Error): boolean {
  return message === NONE || /EPIPE|ECONNRESET|closed|socket hang up/i.test(message);
}

/** The first error that one of them answers unasked, without its sign; null where none does. */
export async function saidUnasked(places: readonly Place[]): Promise<string | null> {
  const said = await Promise.all(places.map(listen));
  return said.find((each) => each !== null) ?? null;
}

function listen({ host, port }: Place): Promise<string | null> {
  return new Promise((resolve) => {
    const socket = connect({ host, port });
    let heard = "";
    const end = () => {
      clearTimeout(timer);
      socket.destroy();
      resolve(/^-([A-Z]+ [^\r\n]*)/.exec(heard)?.[1] ?? null);
    };
    const timer = setTimeout(end, PATIENCE_MS);
    socket.on("data", (data) => {
      heard += Buffer.from(data).toString("latin1");
      if (heard.length > 4096 || heard.includes("\n")) end();
    });
    socket.on("error", end);
    socket.on("close", end);
  });
}
