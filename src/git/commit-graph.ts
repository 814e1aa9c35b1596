/**
 * The commit-graph file (and chains of them): parents, times and generations without inflating a commit.
 *
 *   "CGPH" version hash-version chunks bases | chunk table | OIDF OIDL CDAT [GDA2 GDO2] [EDGE] [BASE] | SHA-1
 *
 * A graph is a hint that may be missing, outdated or broken: anything odd makes it be ignored, and the
 * commits themselves are read. It is not used in shallow clones, whose parents it doesn't know to be cut.
 */
import type { Buffer } from "node:buffer";
import { readFileSync } from "node:fs";
import { oidAt, oidBytes } from "./oid.ts";
import { FileVanished, type SliceFile, type SlicePool } from "./slices.ts";
import type { Oid } from "./types.ts";

/** A commit as walks see it. */
export interface CommitInfo {
  readonly parents: readonly Oid[];
  /** Committer time in seconds. */
  readonly time: number;
  /** Corrected commit date: greater than every ancestor's. Infinity when no graph says. */
  readonly generation: number;
}

export interface CommitGraph {
  find(oid: Oid): CommitInfo | null;
}

const NO_PARENT = 0x70000000;
const GROUP = 204;
const ROWS = 128;

interface Layer {
  readonly file: SliceFile;
  /** Commits in the layers below. */
  readonly base: number;
  readonly count: number;
  readonly fan: Uint32Array;
  readonly chunks: ReadonlyMap<string, { start: number; size: number }>;
}

function openLayer(file: SliceFile, base: number): Layer | null {
  const size = file.size();
  if (size < 8 + 12) return null;
  const head = file.chunk(0, 8);
  if (head.toString("latin1", 0, 4) !== "CGPH" || head[4] !== 1 || head[5] !== 1) return null;
  const number = head[6]!;
  const table = file.chunk(8, (number + 1) * 12);
  const chunks = new Map<string, { start: number; size: number }>();
  for (let i = 0; i < number; i++) {
    const start = Number(table.readBigUInt64BE(i * 12 + 4));
    const end = Number(table.readBigUInt64BE((i + 1) * 12 + 4));
    if (end < start || end > size) return null;
    chunks.set(table.toString("latin1", i * 12, i * 12 + 4), { start, size: end - start });
  }
  const fanChunk = chunks.get("OIDF");
  if (fanChunk?.size !== 1024) return null;
  const fanBytes = file.chunk(fanChunk.start, 1024);
  const fan = new Uint32Array(257);
  for (let i = 0; i < 256; i++) {
    fan[i + 1] = fanBytes.readUInt32BE(i * 4);
    if (fan[i + 1]! < fan[i]!) return null;
  }
  const count = fan[256]!;
  if (chunks.get("OIDL")?.size !== count * 20 || chunks.get("CDAT")?.size !== count * 36) {
    return null;
  }
  if (chunks.has("GDA2") && chunks.get("GDA2")!.size !== count * 4) chunks.delete("GDA2");
  return { file, base, count, fan, chunks };
}

/** Opens the graph of one object directory; null when there is none that can be used. */
export function openCommitGraph(objectsDir: string, pool: SlicePool): CommitGraph | null {
  const info = `${objectsDir}/info`;
  let paths: string[];
  try {
    paths = readFileSync(`${info}/commit-graphs/commit-graph-chain`, "latin1").split("\n")
      .filter((line) => /^[0-9a-f]{40}$/.test(line))
      .map((hash) => `${info}/commit-graphs/graph-${hash}.graph`);
  } catch {
    paths = [];
  }
  // A single file wins over a chain, as in git.
  for (const list of [[`${info}/commit-graph`], paths]) {
    if (list.length === 0) continue;
    const layers: Layer[] = [];
    try {
      let base = 0;
      for (const path of list) {
        const layer = openLayer(pool.open(path), base);
        if (layer === null) throw new FileVanished(path);
        layers.push(layer);
        base += layer.count;
      }
      return reader(layers);
    } catch {
      // Unusable: the next, or none.
    }
  }
  return null;
}

function reader(layers: readonly Layer[]): CommitGraph {
  // Topological levels, which older graphs have instead, order walks worse than dates do.
  const corrected = layers.every((layer) => layer.chunks.has("GDA2"));

  function slice(layer: Layer, name: string, position: number, width: number, rows: number) {
    const { start } = layer.chunks.get(name)!;
    const first = position - (position % rows);
    const length = Math.min(rows, layer.count - first) * width;
    return {
      data: layer.file.chunk(start + first * width, length),
      at: (position - first) * width,
    };
  }

  function idAt(layer: Layer, position: number): { data: Buffer; at: number } {
    return slice(layer, "OIDL", position, 20, GROUP);
  }

  function findIn(layer: Layer, id: Buffer): number {
    let low = layer.fan[id[0]!]!;
    let high = layer.fan[id[0]! + 1]!;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const { data, at } = idAt(layer, middle);
      const order = data.compare(id, 0, 20, at, at + 20);
      if (order === 0) return middle;
      if (order < 0) low = middle + 1;
      else high = middle;
    }
    return -1;
  }

  function oidOf(position: number): Oid {
    const layer = layers.findLast((candidate) => candidate.base <= position);
    if (!layer || position - layer.base >= layer.count) throw new RangeError("no such commit");
    const { data, at } = idAt(layer, position - layer.base);
    return oidAt(data, at);
  }

  function infoAt(layer: Layer, position: number): CommitInfo {
    const { data, at } = slice(layer, "CDAT", position, 36, ROWS);
    const parents: Oid[] = [];
    const first = data.readUInt32BE(at + 20);
    const second = data.readUInt32BE(at + 24);
    if (first !== NO_PARENT) parents.push(oidOf(first));
    if (second !== NO_PARENT) {
      if (second < 0x80000000) parents.push(oidOf(second));
      else {
        const edges = layer.chunks.get("EDGE")!;
        for (let edge = second - 0x80000000;; edge++) {
          if (edge * 4 + 4 > edges.size) throw new RangeError("no such edge");
          const value = layer.file.chunk(edges.start + edge * 4, 4).readUInt32BE();
          parents.push(oidOf(value & 0x7fffffff));
          if (value >= 0x80000000) break;
        }
      }
    }
    const high = data.readUInt32BE(at + 28);
    const time = (high & 3) * 2 ** 32 + data.readUInt32BE(at + 32);
    let generation = Infinity;
    if (corrected) {
      const rows = slice(layer, "GDA2", position, 4, 1024);
      const offset = rows.data.readUInt32BE(rows.at);
      if (offset < 0x80000000) generation = time + offset;
      else {
        const large = layer.chunks.get("GDO2")!;
        const index = (offset - 0x80000000) * 8;
        if (index + 8 > large.size) throw new RangeError("no such generation");
        generation = time + Number(layer.file.chunk(large.start + index, 8).readBigUInt64BE());
      }
    }
    return { parents, time, generation };
  }

  let broken = false;
  return {
    find(oid) {
      if (broken) return null;
      try {
        const id = oidBytes(oid);
        for (const layer of layers) {
          const position = findIn(layer, id);
          if (position >= 0) return infoAt(layer, position);
        }
        return null;
      } catch {
        broken = true;
        return null;
      }
    },
  };
}
