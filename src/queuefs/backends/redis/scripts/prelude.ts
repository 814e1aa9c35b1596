/**
 * What the scripts share. A queue's script names the keys it uses by the names below, and ARGV[1] is the
 * queue's name; it is sent with exactly those keys, and carries only the functions that it uses, since
 * both are paid for at every call. Times are the server's, so that the clients' clocks don't matter.
 */
import { createHash } from "node:crypto";
import type { RedisKeys } from "../keys.ts";
import { LIBRARY } from "./library.ts";

/**
 * With a further key a script is refused as a whole, before it changes anything, where the user may not run
 * one of its commands.
 */
export interface Script {
  readonly name: string;
  readonly source: string;
  readonly sha: string;
  /** The keys it takes, in order. */
  readonly keys: readonly (keyof RedisKeys)[];
  /** True when it changes nothing, so that it may be sent twice. */
  readonly readOnly: boolean;
}

/**
 * A script of one queue: answers the error NOQUEUE where the queue isn't registered. `asksItself`: the
 * body looks whether it is, since mostly it need not: what it finds shows that the queue is there.
 */
export function queueScript(
  name: string,
  body: string,
  { readOnly = false, asksItself = false } = {},
): Script {
  const first = asksItself ? "" : REQUIRE;
  const plainly = (text: string) => text.replace(/^\s*--.*\n/gm, "");
  const [library, own] = [plainly(libraryFor(first + body)), plainly(body)];
  const keys = (Object.keys(VARIABLES) as (keyof RedisKeys)[]).filter((key) =>
    uses(library + first + own, VARIABLES[key])
  );
  const types = readOnly ? "" : keys.map((key) => TYPE_ASKED[key] ?? "").join("");
  const source = `${library}${first}${types}${own}`;
  const heads = keys.map((key) => VARIABLES[key]);
  const head = `local ${heads.join(", ")} = ${keys.map((_, i) => `KEYS[${i + 1}]`).join(", ")}\n`;
  return { ...plain(name, `${head}${permissions(source, keys.length)}${source}`, readOnly), keys };
}

/** A script with keys of its own. */
export function script(name: string, source: string, readOnly = false): Script {
  const keys = [...source.matchAll(/KEYS\[(\d+)\]/g)].map(([, n]) => Number(n));
  return plain(name, permissions(source, Math.max(...keys)) + source, readOnly);
}

function plain(name: string, source: string, readOnly: boolean): Script {
  const sha = createHash("sha1").update(source).digest("hex");
  return { name, source, sha, keys: [], readOnly };
}

/**
 * Asks for each command, with the key or the prefix of keys that it is run on, where there are more keys than
 * the script needs. Servers before 7.0 can't be asked.
 */
function permissions(source: string, keys: number): string {
  const known = Object.values(VARIABLES);
  const wanted = new Set<string>();
  for (
    const [, command, on = ""] of source.matchAll(/redis\.call\('([A-Z]+)'(?:, ?([\w[\]]+))?/g)
  ) {
    const key = known.includes(on) || on.startsWith("KEYS[") ? on : "KEYS[1]";
    wanted.add(command === "TIME" ? "'TIME'" : `'${command}', ${key}`);
  }
  return `
if KEYS[${keys + 1}] and redis.acl_check_cmd then
  for _, words in ipairs({ ${[...wanted].map((words) => `{ ${words} }`).join(", ")} }) do
    if not redis.acl_check_cmd(unpack(words)) then
      return redis.error_reply('NOPERM the user may not run ' .. words[1] ..
        (words[2] and ' on ' .. words[2] or '') .. ': nothing was changed')
    end
  end
end
`;
}

/** What each key is called in the scripts. */
const VARIABLES: Record<keyof RedisKeys, string> = {
  names: "names",
  meta: "meta",
  pending: "pending",
  processing: "processing",
  messages: "messages",
  instances: "instances",
  deliveries: "deliveries",
  held: "held",
  failed: "failed",
  failedData: "failed_data",
  failedOrder: "failed_order",
};

/**
 * Each fails where its key is of another type. Asked before a script changes anything: one that fails in its middle
 * leaves done what it did.
 */
const TYPE_ASKED: Partial<Record<keyof RedisKeys, string>> = {
  meta: "redis.call('HEXISTS', meta, '')\n",
  pending: "redis.call('LLEN', pending)\n",
  processing: "redis.call('ZCARD', processing)\n",
  deliveries: "redis.call('HEXISTS', deliveries, '')\n",
  held: "redis.call('HEXISTS', held, '')\n",
  failed: "redis.call('HEXISTS', failed, '')\n",
  failedData: "redis.call('HEXISTS', failed_data, '')\n",
  failedOrder: "redis.call('ZCARD', failed_order)\n",
};

function uses(source: string, word: string): boolean {
  return new RegExp(`(?<![\\w'.])${word}(?![\\w'])`).test(source);
}

/** The functions that `body` calls, and those that they call, in their order. */
function libraryFor(body: string): string {
  const names = Object.keys(LIBRARY);
  const needed = new Set<string>();
  const add = (source: string) => {
    for (const name of names) {
      if (needed.has(name) || !source.includes(`${name}(`)) continue;
      needed.add(name);
      add(LIBRARY[name]!);
    }
  };
  add(body);
  return names.filter((name) => needed.has(name)).map((name) => LIBRARY[name]).join("");
}

const REQUIRE = `
if redis.call('SISMEMBER', names, ARGV[1]) == 0 then
  return redis.error_reply('NOQUEUE')
end
`;
