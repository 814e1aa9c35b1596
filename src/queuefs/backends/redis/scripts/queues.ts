/** Queues as wholes: create, remove, counts, clear. */
import { MASTER, SERVER_ROLE } from "./library.ts";
import { queueScript, script } from "./prelude.ts";

/** KEYS names, meta. ARGV queue, Unix seconds. 1 when it was made, 0 when it was there. */
export const CREATE = script(
  "create",
  `
-- Fails where it is no hash, before the name is there.
redis.call('HEXISTS', KEYS[2], '')
if redis.call('SADD', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HSET', KEYS[2], 'created_at', ARGV[2], 'last_updated', ARGV[2])
return 1
`,
);

/** KEYS base prefix, names. ARGV queue. The names removed: the queue and those below it. */
export const REMOVE = script(
  "remove",
  `
local removed, keys, tree = {}, {}, ARGV[1] .. '/'
local function delete_all(list)
  for from = 1, #list, 1000 do
    redis.call('UNLINK', unpack(list, from, math.min(from + 999, #list)))
  end
end
for _, queue in ipairs(redis.call('SMEMBERS', KEYS[2])) do
  if queue == ARGV[1] or string.sub(queue, 1, string.len(tree)) == tree then
    local own = KEYS[1] .. queue .. ':'
    for _, id in ipairs(redis.call('LRANGE', own .. 'pending', 0, -1)) do
      keys[#keys + 1] = own .. 'msg:' .. id
    end
    for _, member in ipairs(redis.call('ZRANGE', own .. 'processing', 0, -1)) do
      keys[#keys + 1] = own .. 'msg:' .. string.match(member, '^([^|]*)')
    end
    for _, name in ipairs({ 'meta', 'pending', 'processing', 'agentq:deliveries', 'agentq:held',
                            'agentq:failed', 'agentq:failed:data', 'agentq:failed:order' }) do
      keys[#keys + 1] = own .. name
    end
    removed[#removed + 1] = queue
  end
end
-- Once all of them could be read.
delete_all(keys)
for _, queue in ipairs(removed) do redis.call('SREM', KEYS[2], queue) end
-- Changes nothing, which a replica refuses: it may be behind.
if #removed == 0 then redis.call('SREM', KEYS[2], ARGV[1]) end
return removed
`,
);

/** KEYS names. ARGV whether to ask for the role. The role, then the names. */
export const LIST = script(
  "list",
  `${SERVER_ROLE}
local answer = redis.call('SMEMBERS', KEYS[1])
table.insert(answer, 1, server_role(ARGV[1]))
return answer
`,
  true,
);

/**
 * KEYS base prefix, names. ARGV whether to ask for the role where one of them is empty, or there are none;
 * queues, or none for all. The role as in STATUS, then triples: queue, pending, processing.
 */
export const STATUSES = statuses(
  "statuses",
  `
  local waiting = redis.call('LLEN', KEYS[1] .. queue .. ':pending')
  local out = redis.call('ZCARD', KEYS[1] .. queue .. ':processing')`,
);

/** The same also where a key isn't of the type that it should be: then -1 stands in the place of both counts. */
export const STATUSES_EACH = statuses(
  "statuses-each",
  `
  local waiting = redis.pcall('LLEN', KEYS[1] .. queue .. ':pending')
  local out = redis.pcall('ZCARD', KEYS[1] .. queue .. ':processing')
  for _, each in ipairs({ waiting, out }) do
    if type(each) == 'table' and not string.find(each.err, 'WRONGTYPE', 1, true) then return each end
  end
  if type(waiting) == 'table' or type(out) == 'table' then waiting, out = -1, -1 end`,
);

function statuses(name: string, counts: string) {
  return script(
    name,
    `${SERVER_ROLE}
local queues = {}
for i = 2, #ARGV do queues[#queues + 1] = ARGV[i] end
if #queues == 0 then
  queues = redis.call('SMEMBERS', KEYS[2])
  table.sort(queues)
end
local answer, empty = { ${MASTER} }, #queues == 0
for _, queue in ipairs(queues) do
  if redis.call('SISMEMBER', KEYS[2], queue) == 0 then
    return redis.error_reply('NOQUEUE ' .. queue)
  end${counts}
  empty = empty or waiting == 0 and out == 0
  answer[#answer + 1] = queue
  answer[#answer + 1] = waiting
  answer[#answer + 1] = out
end
if empty then answer[1] = server_role(ARGV[1]) end
return answer
`,
    true,
  );
}

/**
 * KEYS base prefix, names. ARGV queues, or none for all. The first key that isn't of the type that it should be:
 * {queue, key, that type, its type}; {} where there is none. Of messages' keys the first thousand are looked at.
 */
export const WRONG_KEY = script(
  "wrong-key",
  `
local function is_wrong(key, command, more)
  local answer
  if more then answer = redis.pcall(command, key, more) else answer = redis.pcall(command, key) end
  return type(answer) == 'table' and answer.err and string.find(answer.err, 'WRONGTYPE', 1, true)
end
local function told(queue, key, wanted)
  return { queue, key, wanted, redis.pcall('TYPE', key).ok or '' }
end
if is_wrong(KEYS[2], 'SISMEMBER', '') then return told('', KEYS[2], 'set') end
local queues = #ARGV > 0 and ARGV or redis.call('SMEMBERS', KEYS[2])
local parts = {
  { 'pending', 'LLEN', 'list' }, { 'processing', 'ZCARD', 'zset' },
  { 'meta', 'HEXISTS', 'hash', '' }, { 'agentq:deliveries', 'HEXISTS', 'hash', '' },
  { 'agentq:held', 'HEXISTS', 'hash', '' }, { 'agentq:failed', 'HEXISTS', 'hash', '' },
  { 'agentq:failed:data', 'HEXISTS', 'hash', '' }, { 'agentq:failed:order', 'ZCARD', 'zset' },
}
for _, queue in ipairs(queues) do
  local own = KEYS[1] .. queue .. ':'
  for _, part in ipairs(parts) do
    if is_wrong(own .. part[1], part[2], part[4]) then return told(queue, own .. part[1], part[3]) end
  end
end
for _, queue in ipairs(queues) do
  local own = KEYS[1] .. queue .. ':'
  local ids = redis.call('LRANGE', own .. 'pending', 0, 999)
  for _, member in ipairs(redis.call('ZRANGE', own .. 'processing', 0, 999)) do
    ids[#ids + 1] = string.match(member, '^([^|]*)')
  end
  for _, id in ipairs(ids) do
    if is_wrong(own .. 'msg:' .. id, 'GET') then return told(queue, own .. 'msg:' .. id, 'string') end
  end
end
return {}
`,
  true,
);

/**
 * KEYS base prefix, names. ARGV whether to ask for the role, queues. {1 where none of them has a message,
 * role}; the role as in STATUS.
 */
export const COMPLETE = script(
  "complete",
  `${SERVER_ROLE}
for i = 2, #ARGV do
  if redis.call('SISMEMBER', KEYS[2], ARGV[i]) == 0 then
    return redis.error_reply('NOQUEUE ' .. ARGV[i])
  end
end
for i = 2, #ARGV do
  local own = KEYS[1] .. ARGV[i]
  if redis.call('LLEN', own .. ':pending') + redis.call('ZCARD', own .. ':processing') > 0 then
    return { 0, server_role(ARGV[1]) }
  end
end
return { 1, server_role(ARGV[1]) }
`,
  true,
);

/**
 * ARGV queue, whether to ask for the role where none is pending. {pending, processing, role}; the role is
 * MASTER too where nobody asked.
 */
export const STATUS = queueScript(
  "status",
  `
local waiting, out = redis.call('LLEN', pending), redis.call('ZCARD', processing)
return { waiting, out, waiting == 0 and server_role(ARGV[2]) or ${MASTER} }
`,
  { readOnly: true },
);

/** ARGV queue. How many were removed. */
export const CLEAR = queueScript(
  "clear",
  `
local keys = {}
local waiting = redis.call('LRANGE', pending, 0, -1)
for _, id in ipairs(waiting) do keys[#keys + 1] = messages .. id end
local out = redis.call('ZRANGE', processing, 0, -1)
for _, member in ipairs(out) do keys[#keys + 1] = messages .. string.match(member, '^([^|]*)') end
keys[#keys + 1] = pending
keys[#keys + 1] = processing
keys[#keys + 1] = deliveries
keys[#keys + 1] = held
local last = redis.call('HGET', deliveries, '#')
delete_all(keys)
if last then redis.call('HSET', deliveries, '#', last) end
return #waiting + #out
`,
);

/**
 * ARGV queue, whether to ask for the role where there are none. The role; the messages in processing, four
 * values each: id, payload or false, the order of its first delivery, "processing"; then those pending, in
 * order, with "pending" and 0.
 */
export const MESSAGES = queueScript(
  "messages",
  `
local answer = { ${MASTER} }
local function add(id, payload, order, state)
  answer[#answer + 1] = id
  answer[#answer + 1] = payload
  answer[#answer + 1] = order
  answer[#answer + 1] = state
end
for _, member in ipairs(redis.call('ZRANGE', processing, 0, -1)) do
  local id = string.match(member, '^([^|]*)')
  local r = record(id)
  local payload = redis.call('HGET', held, id) or payload_of(id)
  add(id, payload, r and r.order or '0', 'processing')
end
for _, id in ipairs(redis.call('LRANGE', pending, 0, -1)) do
  local payload = payload_of(id)
  add(id, payload, '0', 'pending')
end
if #answer == 1 then answer[1] = server_role(ARGV[2]) end
return answer
`,
  { readOnly: true },
);

/** ARGV queue, first place to look at, whether to ask for the role. {place, id, payload} of the next message, or {role}. */
export const PEEK = queueScript(
  "peek",
  `
local place = tonumber(ARGV[2])
while true do
  local id = redis.call('LINDEX', pending, place)
  if not id then return { server_role(ARGV[3]) } end
  if redis.call('HEXISTS', held, id) == 0 then
    local payload = payload_of(id)
    if payload then return { place, id, payload } end
  end
  place = place + 1
end
`,
  { readOnly: true },
);
