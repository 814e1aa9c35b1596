/** Dead letters, kept beside the queue. */
import { MASTER } from "./library.ts";
import { queueScript } from "./prelude.ts";

/**
 * ARGV queue, first, last (as in ZRANGE), whether to ask for the role where there are none. The role, then
 * four values each: dead letter, facts, payload, Unix microseconds.
 */
export const FAILED_LIST = queueScript(
  "failed-list",
  `
local answer = { ${MASTER} }
for _, name in ipairs(redis.call('ZRANGE', failed_order, ARGV[2], ARGV[3])) do
  answer[#answer + 1] = name
  answer[#answer + 1] = redis.call('HGET', failed, name)
  answer[#answer + 1] = redis.call('HGET', failed_data, name)
  answer[#answer + 1] = redis.call('ZSCORE', failed_order, name)
end
if #answer == 1 then answer[1] = server_role(ARGV[4]) end
return answer
`,
  { readOnly: true },
);

/** ARGV queue, dead letter, whether to ask for the role. The same four values, or {role}. */
export const FAILED_SHOW = queueScript(
  "failed-show",
  `
local facts = redis.call('HGET', failed, ARGV[2])
if not facts then return { server_role(ARGV[3]) } end
return { ARGV[2], facts, redis.call('HGET', failed_data, ARGV[2]),
         redis.call('ZSCORE', failed_order, ARGV[2]) }
`,
  { readOnly: true },
);

/**
 * ARGV queue, then for each: dead letter, message id, payload as it was shown. All or none. Answers
 * {} when all were enqueued, else {"gone" or "pending" or "processing", the dead letter in question}. A payload that
 * isn't pending is being processed: by us as our record says, or by a program without leases.
 */
export const FAILED_RETRY = queueScript(
  "failed-retry",
  `
masters_word()
local seen = {}
for i = 2, #ARGV, 3 do
  local name, id = ARGV[i], ARGV[i + 1]
  if redis.call('HGET', failed_data, name) ~= ARGV[i + 2] then return { 'gone', name } end
  if seen[id] then return { 'pending', name } end
  seen[id] = true
  local there = redis.call('EXISTS', messages .. id) == 1
  if there and redis.call('LPOS', pending, id) then return { 'pending', name } end
  local r = record(id)
  if there or r and r.owner ~= '' and redis.call('ZSCORE', processing, id .. '|' .. r.owner) then
    return { 'processing', name }
  end
end
for i = 2, #ARGV, 3 do
  put(ARGV[i + 1], ARGV[i + 2])
  redis.call('HDEL', failed, ARGV[i])
  redis.call('HDEL', failed_data, ARGV[i])
  redis.call('ZREM', failed_order, ARGV[i])
end
return {}
`,
);

/** ARGV queue, "" or Unix microseconds before which they failed, dead letters or none for all. How many. */
export const FAILED_PRUNE = queueScript(
  "failed-prune",
  `
masters_word()
local chosen
if #ARGV > 2 then
  chosen = {}
  for i = 3, #ARGV do chosen[ARGV[i]] = true end
end
local last = ARGV[2] == '' and '+inf' or '(' .. ARGV[2]
local pruned = 0
for _, name in ipairs(redis.call('ZRANGEBYSCORE', failed_order, '-inf', last)) do
  if not chosen or chosen[name] then
    redis.call('HDEL', failed, name)
    redis.call('HDEL', failed_data, name)
    redis.call('ZREM', failed_order, name)
    pruned = pruned + 1
  end
end
return pruned
`,
);
