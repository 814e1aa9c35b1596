/**
 * What the scripts share. Every script of one queue takes the twelve keys of `keyList`, in that order,
 * and ARGV[1] = the queue's name. Times are the server's, so that the clients' clocks don't matter.
 */
import { createHash } from "node:crypto";

export interface Script {
  readonly name: string;
  readonly source: string;
  readonly sha: string;
  /** True when it changes nothing, so that it may be sent twice. */
  readonly readOnly: boolean;
}

/** A script of one queue: answers `{err}` NOQUEUE where the queue isn't registered. */
export function queueScript(name: string, body: string, readOnly = false): Script {
  return script(name, `${KEYS}${LIBRARY}${REQUIRE}${body}`, readOnly);
}

/** A script with keys of its own. */
export function script(name: string, source: string, readOnly = false): Script {
  return { name, source, sha: createHash("sha1").update(source).digest("hex"), readOnly };
}

const KEYS = `
local names, meta, pending, processing = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local messages, instances, counter = KEYS[5], KEYS[6], KEYS[7]
local deliveries, held, failed = KEYS[8], KEYS[9], KEYS[10]
local failed_data, failed_order = KEYS[11], KEYS[12]
`;

const REQUIRE = `
if redis.call('SISMEMBER', names, ARGV[1]) == 0 then
  return redis.error_reply('NOQUEUE')
end
`;

const LIBRARY = `
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function int(number)
  return string.format('%.0f', number)
end

-- DELIVERY|UNTIL|LENGTH|ORDER|ATTEMPTS|OWNER; the owner is empty while the message is pending.
local function parse(text)
  if not text then return nil end
  local n, till, length, order, attempts, owner =
    string.match(text, '^(%d+)|(%d+)|(%d+)|(%d+)|(%d+)|(.*)$')
  if not n then return nil end
  return { n = n, till = till, length = length, order = order, attempts = tonumber(attempts),
           owner = owner }
end

local function record(id)
  return parse(redis.call('HGET', deliveries, id))
end

local function save(id, r)
  redis.call('HSET', deliveries, id, table.concat(
    { r.n, r.till, r.length, r.order, int(r.attempts), r.owner }, '|'))
end

-- The record of the delivery that a receipt names, when it is the current one.
-- kind 'lease': DELIVERY.OWNER; kind 'owner': what the holder's name must begin with or be.
local function current(id, kind, token)
  local r = record(id)
  if not r or r.owner == '' then return nil end
  if kind == 'lease' then
    if r.n .. '.' .. r.owner ~= token then return nil end
  elseif string.sub(r.owner, 1, string.len(token)) ~= token then
    return nil
  end
  if not redis.call('ZSCORE', processing, id .. '|' .. r.owner) then return nil end
  return r
end

-- Puts messages back to where they were. Those at the front that came back before are the only ones
-- that can belong before them.
local function place_back(ids)
  local function order(id)
    local r = record(id)
    return r and tonumber(r.order) or 0
  end
  local entries, last = {}, 0
  for _, id in ipairs(ids) do
    local at = order(id)
    entries[#entries + 1] = { id, at, #entries }
    if at > last then last = at end
  end
  while true do
    local id = redis.call('LINDEX', pending, 0)
    if not id then break end
    local r = record(id)
    if not r or r.order == '0' or tonumber(r.order) > last then break end
    redis.call('LPOP', pending)
    entries[#entries + 1] = { id, tonumber(r.order), #entries }
  end
  table.sort(entries, function(a, b)
    if a[2] ~= b[2] then return a[2] < b[2] end
    return a[3] < b[3]
  end)
  for i = #entries, 1, -1 do redis.call('LPUSH', pending, entries[i][1]) end
end

-- Makes a message pending at the back, replacing one of its id that is pending. Callers have made sure
-- that no program without leases is processing the id: its ack would take the new payload along.
local function put(id, payload)
  local old = redis.call('GET', messages .. id)
  -- First what a server out of memory refuses: it lets a script that has changed something go on.
  redis.call('SET', messages .. id, payload)
  local r = old and record(id)
  if r and r.owner ~= '' and redis.call('ZSCORE', processing, id .. '|' .. r.owner) then
    if redis.call('HSETNX', held, id, old) == 0 then redis.call('LREM', pending, 0, id) end
  else
    if old then redis.call('LREM', pending, 0, id) else redis.call('HDEL', held, id) end
    redis.call('HDEL', deliveries, id)
  end
  redis.call('RPUSH', pending, id)
end

local function bury(id, attempts, reason, payload, at)
  local name, n = id, 1
  while redis.call('HEXISTS', failed, name) == 1 do
    n = n + 1
    name = id .. '.' .. int(n)
  end
  redis.call('HSET', failed, name, cjson.encode({ id = id, reason = reason, attempts = attempts }))
  if payload then redis.call('HSET', failed_data, name, payload) end
  -- In order even within one millisecond.
  local score, last = at * 1000, redis.call('ZREVRANGE', failed_order, 0, 0, 'WITHSCORES')[2]
  if last and tonumber(last) >= score then score = tonumber(last) + 1 end
  redis.call('ZADD', failed_order, int(score), name)
end

-- Deletes in bounded steps: one call with all of them could overflow the Lua stack.
local function delete_all(list)
  for from = 1, #list, 1000 do
    redis.call('UNLINK', unpack(list, from, math.min(from + 999, #list)))
  end
end
`;
