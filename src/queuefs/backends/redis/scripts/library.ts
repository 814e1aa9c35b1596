/**
 * The functions of the scripts, in Lua. They name keys as `prelude.ts` does. None takes a message out of one
 * place before it is in the other: a server that doesn't let a script go on has done what came before.
 */

/** What `server_role` answers; UNTOLD where a script may not ask. */
export const MASTER = 0, REPLICA = 1, UNTOLD = 2;

/** Asked in the script itself, so that an answer that depends on it takes one round trip. */
export const SERVER_ROLE = `
local function server_role(asked)
  if asked ~= '1' then return ${MASTER} end
  local about = redis.pcall('INFO', 'replication')
  if type(about) ~= 'string' then return ${UNTOLD} end
  return string.find(about, 'role:slave', 1, true) and ${REPLICA} or ${MASTER}
end
`;

/** Each by its name, after those that it calls. */
export const LIBRARY: Readonly<Record<string, string>> = {
  server_role: SERVER_ROLE,
  now_ms: `
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
`,
  int: `
local function int(number)
  return string.format('%.0f', number)
end
`,
  parse: `
-- DELIVERY|UNTIL|LENGTH|ORDER|ATTEMPTS|OWNER; the owner is empty while the message is pending.
local function parse(text)
  if not text then return nil end
  local n, till, length, order, attempts, owner =
    string.match(text, '^(%d+)|(%d+)|(%d+)|(%d+)|(%d+)|(.*)$')
  if not n then return nil end
  return { n = n, till = till, length = length, order = order, attempts = tonumber(attempts),
           owner = owner }
end
`,
  record: `
local function record(id)
  return parse(redis.call('HGET', deliveries, id))
end
`,
  save: `
local function save(id, r)
  redis.call('HSET', deliveries, id, table.concat(
    { r.n, r.till, r.length, r.order, int(r.attempts), r.owner }, '|'))
end
`,
  holder: `
-- Who holds a message by its record, when that is of the delivery that a receipt names.
-- kind 'lease': DELIVERY.OWNER; kind 'owner': what the holder's name must begin with or be.
local function holder(text, kind, token)
  local n, owner = string.match(text or '', '^(%d+)|%d+|%d+|%d+|%d+|(.+)$')
  if not n then return nil end
  local wanted = kind == 'lease' and n .. '.' .. owner or string.sub(owner, 1, string.len(token))
  return wanted == token and owner or nil
end
`,
  current: `
-- The record of the delivery that a receipt names, when it is the last one that was made and the
-- message is in processing under it: other programs may have ended that.
local function current(id, kind, token)
  local text = redis.call('HGET', deliveries, id)
  local owner = holder(text, kind, token)
  return owner and redis.call('ZSCORE', processing, id .. '|' .. owner) and parse(text) or nil
end
`,
  masters_word: `
-- A change that changes nothing, before a script that may find nothing to do: a replica, which may be
-- behind its master, refuses it. After it a server out of memory lets the script go on.
local function masters_word()
  redis.call('HDEL', deliveries, '')
end
`,
  superseded: `
-- Ends the delivery of an older generation where a newer one is pending.
local function superseded(id, member)
  redis.call('ZREM', processing, member)
  redis.call('HDEL', held, id)
  redis.call('HDEL', deliveries, id)
end
`,
  place_back: `
-- Puts messages back to where they were, and then ends their places in processing. Those at the front
-- that came back before are the only ones that can belong before them.
local function place_back(ids, members)
  if #ids == 0 then return end
  -- Nothing leaves the list before it is known that it can be put back.
  redis.call('LPUSH', pending, ids[1])
  redis.call('LPOP', pending)
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
  for _, member in ipairs(members) do redis.call('ZREM', processing, member) end
end
`,
  payload_of: `
-- The payload, false where there is none. Where another program's key of another type stands in its place: false and
-- {key, type}, for a script that failed here would leave half of what it does done.
local function payload_of(id)
  local key = messages .. id
  local payload = redis.pcall('GET', key)
  if type(payload) ~= 'table' then return payload end
  if string.find(payload.err, 'WRONGTYPE', 1, true) then
    return false, { key, redis.pcall('TYPE', key).ok or '' }
  end
  return redis.call('GET', messages .. id)
end
`,
  put: `
-- Makes a message pending at the back, replacing one of its id that is pending. Callers have made sure
-- that no program without leases is processing the id: its ack would take the new payload along; and that what
-- it replaces is a payload.
local function put(id, payload)
  local old = redis.call('GET', messages .. id)
  local r = old and record(id)
  local out = r and r.owner ~= '' and redis.call('ZSCORE', processing, id .. '|' .. r.owner)
  -- First what a server out of memory refuses: it lets a script that has changed something go on. And
  -- into the new place before out of the old.
  if out then redis.call('HSETNX', held, id, old) end
  redis.call('SET', messages .. id, payload)
  local length = redis.call('RPUSH', pending, id)
  if not out then
    redis.call('HDEL', held, id)
    redis.call('HDEL', deliveries, id)
  end
  while old and redis.call('LPOS', pending, id) < length - 1 do
    redis.call('LREM', pending, 1, id)
    length = length - 1
  end
end
`,
  keep_alive: `
-- For programs that go by heartbeats.
local function keep_alive(owner, ms)
  if ms ~= '' then redis.call('SET', instances .. owner .. ':alive', '1', 'PX', ms) end
end
`,
  touch: `
local function touch(seconds)
  if seconds ~= '' then redis.call('HSET', meta, 'last_updated', seconds) end
end
`,
  bury: `
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
`,
  fail: `
-- Moves a message in processing to the dead letters. tried: 0 where this delivery was no attempt.
local function fail(id, r, reason, at, tried)
  local older, payload, foreign = redis.call('HGET', held, id), nil, nil
  if not older then payload, foreign = payload_of(id) end
  bury(id, r.attempts + (tried or 1), reason, older or payload, at)
  redis.call('ZREM', processing, id .. '|' .. r.owner)
  redis.call('HDEL', deliveries, id)
  if older then redis.call('HDEL', held, id)
  elseif not foreign then redis.call('DEL', messages .. id) end
  return 1
end
`,
  give_back: `
-- Ends a delivery without an ack: 2 where a newer generation has superseded it. To the back, counted; or,
-- uncounted, on the lists for \`place_back\`.
local function give_back(id, r, back, members)
  local member = id .. '|' .. r.owner
  if redis.call('HEXISTS', held, id) == 1 then
    superseded(id, member)
    return 2
  end
  masters_word()
  r.owner = ''
  if back then
    save(id, r)
    back[#back + 1] = id
    members[#members + 1] = member
    return 1
  end
  r.attempts = r.attempts + 1
  r.order = '0'
  save(id, r)
  redis.call('RPUSH', pending, id)
  redis.call('ZREM', processing, member)
  return 1
end
`,
  delete_all: `
-- Deletes in bounded steps: one call with all of them could overflow the Lua stack.
local function delete_all(list)
  for from = 1, #list, 1000 do
    redis.call('UNLINK', unpack(list, from, math.min(from + 999, #list)))
  end
end
`,
};
