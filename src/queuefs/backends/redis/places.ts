/**
 * Where the nodes of a cluster are. A node may not know its own host, or not tell it: then CLUSTER SLOTS has none
 * (`""` or null: "the one you asked") or `?` (a host name is to be told and none is set), and so has MOVED.
 */
import { quoted } from "../../names.ts";
import type { Place } from "./unasked.ts";

/** In place of a client's words: no host is known for a node that has slots. */
export const NO_HOST = "the cluster doesn't say where all of its nodes are: ";

/** As the server says it elsewhere. */
export const NO_SLOTS = "CLUSTERDOWN the cluster has no slots, or none that a node serves";

/** Of a node: host, port, id, and `name, value, …` of what else is known. */
type Node = readonly [
  host: string | null,
  port: number,
  id?: string | undefined,
  more?: ReadonlyArray<string | null>,
];
/** First and last slot, master, replicas. */
type Row = readonly (number | Node)[];

/** The answer of CLUSTER SLOTS with a host for each master. Throws {@link NO_HOST}, {@link NO_SLOTS}. */
export function placed(rows: readonly Row[], asked: Place): Row[] {
  if (rows.length === 0) throw new Error(NO_SLOTS);
  const nodes = rows.flatMap((row) => row.slice(2) as Node[]);
  const idOf = ([host, port, id]: Node) => id ?? `${host}:${port}`;
  const ids = new Set(nodes.map(idOf));
  const lost = new Set<string>();
  const place = (node: Node, index: number): Node => {
    const [host, port, id, more = []] = node;
    if (host && host !== "?") return node;
    // Its own port may be another than the one it is reached by.
    if (ids.size === 1) return [asked.host, asked.port, id, more];
    const ip = more[more.indexOf("ip") + 1];
    const known = host !== "?" ? port > 0 && asked.host : more.includes("ip") && ip;
    if (!known && index === 0) lost.add(idOf(node));
    return [known || "", port, id, more];
  };
  const all = rows.map((row): Row => [
    ...row.slice(0, 2),
    ...(row.slice(2) as Node[]).map(place),
  ]);
  if (lost.size > 0) {
    const first = quoted([...lost][0]!.slice(0, 12));
    throw new Error(`${NO_HOST}${lost.size} of ${ids.size} have no host (${first} for one)`);
  }
  return all;
}

/** `MOVED` and `ASK` with a host, where they name none: `hostOf` knows it by the port. */
export function redirected(error: Error, hostOf: (port: number) => string): Error {
  const found = /^(MOVED|ASK) (\d+) \??:(\d+)$/.exec(error.message);
  if (found === null) return error;
  const [, how, slot, port] = found;
  const message = `${how} ${slot} ${hostOf(Number(port))}:${port}`;
  return Object.assign(new Error(message), { name: error.name });
}
