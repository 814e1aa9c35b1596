/**
 * Where a queue lives in Redis.
 *
 * The first block is OpenViking's layout, the second stands beside it and is never looked at there. One
 * hash tag, so that all of it is in one slot of a cluster. Keys of single messages and owners are made
 * inside the scripts from the prefixes passed in KEYS: which message is next is only known there.
 *
 * ```
 * {P}:ov:queue:names                  set     queue names
 * {P}:ov:queue:Q:meta                 hash    created_at, last_updated (Unix seconds)
 * {P}:ov:queue:Q:pending              list    ids, next one first
 * {P}:ov:queue:Q:processing           zset    ID|OWNER, scored with Unix seconds (other programs: ID alone, too)
 * {P}:ov:queue:Q:msg:ID               string  the envelope
 * {P}:ov:queue:instance:OWNER:alive   string  exists while the owner's deliveries are to be left alone
 *
 * {P}:ov:queue:Q:agentq:deliveries    hash    ID → DELIVERY|UNTIL|LENGTH|ORDER|ATTEMPTS|OWNER
 *                                             of a message that is out, or has been and came back;
 *                                             # → the last delivery number, which begins at the time
 * {P}:ov:queue:Q:agentq:held          hash    ID → envelope of the generation in processing, where a
 *                                             newer one of the same id is pending (and owns msg:ID)
 * {P}:ov:queue:Q:agentq:failed        hash    dead letter → its facts as JSON
 * {P}:ov:queue:Q:agentq:failed:data   hash    dead letter → what was its payload
 * {P}:ov:queue:Q:agentq:failed:order  zset    dead letters by Unix microseconds
 * ```
 *
 * ORDER is the delivery number of a message's first delivery. Deliveries are made from the front of the
 * list, so among messages that came back it is their old order, and those that never left are behind.
 */
export function redisKeys(prefix: string, queue: string) {
  const base = basePrefix(prefix);
  const own = `${base}${queue}:`;
  return {
    names: `${base}names`,
    meta: `${own}meta`,
    pending: `${own}pending`,
    processing: `${own}processing`,
    messages: `${own}msg:`,
    instances: `${base}instance:`,
    deliveries: `${own}agentq:deliveries`,
    held: `${own}agentq:held`,
    failed: `${own}agentq:failed`,
    failedData: `${own}agentq:failed:data`,
    failedOrder: `${own}agentq:failed:order`,
  };
}

/** What every key begins with. */
export function basePrefix(prefix: string): string {
  return `{${prefix}}:ov:queue:`;
}

export type RedisKeys = ReturnType<typeof redisKeys>;
