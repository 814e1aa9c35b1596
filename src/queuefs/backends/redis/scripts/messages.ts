/** The life of a message. Receipts are three values each: id, "lease" or "owner", token. */
import { queueScript } from "./prelude.ts";

/**
 * ARGV queue, Unix seconds ("" where they were told lately), then for each message with an id made just
 * now: id, envelope.
 */
export const ENQUEUE_NEW = queueScript(
  "enqueue",
  `
touch(ARGV[2])
for i = 3, #ARGV, 2 do
  redis.call('SET', messages .. ARGV[i], ARGV[i + 1])
  redis.call('RPUSH', pending, ARGV[i])
end
return {}
`,
);

/**
 * The same for ids that may be there already. Answers those that a program without leases is
 * processing; where there are any, nothing was enqueued.
 */
export const ENQUEUE_GIVEN = queueScript(
  "enqueue",
  `
local refused = {}
for i = 3, #ARGV, 2 do
  local id = ARGV[i]
  if redis.call('EXISTS', messages .. id) == 1 then
    local r = record(id)
    local ours = r and r.owner ~= '' and redis.call('ZSCORE', processing, id .. '|' .. r.owner)
    if not ours and not redis.call('LPOS', pending, id) then
      refused[#refused + 1] = id
    else
      -- Fails where it is of another type, while nothing is changed yet.
      redis.call('GET', messages .. id)
    end
  end
end
if #refused > 0 then return refused end
touch(ARGV[2])
for i = 3, #ARGV, 2 do put(ARGV[i], ARGV[i + 1]) end
return refused
`,
);

/** ARGV queue, count, owner, lease ms. Leaves what was taken in `answer`, `taken` of them. */
const take = `
masters_word()
local count, owner, length = tonumber(ARGV[2]), ARGV[3], ARGV[4]
local time = redis.call('TIME')
local at = time[1] * 1000 + math.floor(time[2] / 1000)
local till = '|' .. int(at + length) .. '|' .. length .. '|'
local answer, taken, skipped = {}, 0, 0
while taken < count do
  local id = redis.call('LINDEX', pending, skipped)
  if not id then break end
  local known = redis.call('HMGET', deliveries, '#', id)
  local r = known[2] and parse(known[2])
  -- An older generation of it may be out: then it waits. Where one is, there is a record of that.
  if r and r.owner ~= '' and redis.call('HEXISTS', held, id) == 1 then
    skipped = skipped + 1
  else
    local n = int((tonumber(known[1]) or at * 1000) + 1)
    local attempts = r and r.attempts or 0
    local order = r and r.order ~= '0' and r.order or n
    redis.call('HSET', deliveries, '#', n, id,
      n .. till .. order .. '|' .. attempts .. '|' .. owner)
    redis.call('ZADD', processing, time[1], id .. '|' .. owner)
    if skipped == 0 then redis.call('LPOP', pending) else redis.call('LREM', pending, 1, id) end
    -- Nor is there one any more, then: another program's doing.
    if r and r.owner == '' then redis.call('HDEL', held, id) end
    answer[taken * 4 + 1] = id
    local payload, foreign = payload_of(id)
    answer[taken * 4 + 2] = foreign or payload
    answer[taken * 4 + 3] = n
    answer[taken * 4 + 4] = attempts
    taken = taken + 1
  end
end
`;
/** Only where nothing that was found shows that the queue is there. */
const noQueueUnless = (found: string) => `
if not (${found}) and redis.call('SISMEMBER', names, ARGV[1]) == 0 then
  return redis.error_reply('NOQUEUE')
end
`;

/**
 * ARGV queue, count, owner, lease ms. Four values a delivery: id, payload (nil where it is missing,
 * {key, type} where that key is no string: to be failed by the caller), delivery number, attempts.
 */
export const DEQUEUE = queueScript(
  "dequeue",
  `${take} ${noQueueUnless("taken > 0")} return answer`,
  { asksItself: true },
);

/** The same, where it is time to say for how many ms the owner is alive: ARGV[5]. */
export const DEQUEUE_ALIVE = queueScript(
  "dequeue",
  `
${take} ${noQueueUnless("taken > 0")}
if taken > 0 then keep_alive(owner, ARGV[5]) end
return answer
`,
  { asksItself: true },
);

/** Acks the message `id` by the receipt that ends at ARGV[i + 2], which leaves 1 or 0 in `outcome`. */
const ackOne = `
local owner = holder(redis.call('HGET', deliveries, id), ARGV[i + 1], ARGV[i + 2])
local outcome = owner and redis.call('ZREM', processing, id .. '|' .. owner) or 0
if outcome == 1 then
  redis.call('HDEL', deliveries, id)
  if redis.call('HDEL', held, id) == 0 then redis.call('DEL', messages .. id) end
end
`;

/** ARGV queue, receipts. For each 1 (acked) or 0 (stale). */
export const ACK = queueScript(
  "ack",
  `
local answer, any = {}, false
for i = 2, #ARGV, 3 do
  local id = ARGV[i]
  ${ackOne}
  any = any or outcome == 1
  answer[#answer + 1] = outcome
end
${noQueueUnless("any")}
if not any then masters_word() end
return answer
`,
  { asksItself: true },
);

/**
 * ARGV queue, count, owner, lease ms, alive ms ("" where it isn't time to say it), receipts to ack. First
 * what became of each, in one list; then what was taken, as DEQUEUE answers.
 */
export const ACK_DEQUEUE = queueScript(
  "ack and dequeue",
  `
local outcomes, any = {}, false
for i = 6, #ARGV, 3 do
  local id = ARGV[i]
  ${ackOne}
  any = any or outcome == 1
  outcomes[#outcomes + 1] = outcome
end
${take} ${noQueueUnless("any or taken > 0")}
if taken > 0 then keep_alive(owner, ARGV[5]) end
return { outcomes, answer }
`,
  { asksItself: true },
);

/**
 * The same for any ending: for each its name ("untried" for a "fail" of what wasn't) and a reason ("" but for those), then the receipt. What is
 * given back goes to its old place, all of it together.
 */
export const SETTLE_DEQUEUE = queueScript(
  "settle and dequeue",
  `
local outcomes, back, members = {}, {}, {}
for j = 6, #ARGV, 5 do
  local how, i = ARGV[j], j + 2
  local id = ARGV[i]
  if how == 'ack' then
    ${ackOne}
    outcomes[#outcomes + 1] = outcome
  else
    local r, outcome = current(id, ARGV[i + 1], ARGV[i + 2]), 0
    if r and how == 'fail' then outcome = fail(id, r, ARGV[j + 1], now_ms()) end
    if r and how == 'untried' then outcome = fail(id, r, ARGV[j + 1], now_ms(), 0) end
    if r and how == 'requeue' then outcome = give_back(id, r) end
    if r and how == 'release' then outcome = give_back(id, r, back, members) end
    outcomes[#outcomes + 1] = outcome
  end
end
place_back(back, members)
${take}
if taken > 0 then keep_alive(owner, ARGV[5]) end
return { outcomes, answer }
`,
);

/** ARGV queue, "1" to count the attempt, receipts. For each 1 (done), 0 (stale) or 2 (superseded). */
export const REQUEUE = queueScript(
  "requeue",
  `
masters_word()
local answer, back, members = {}, {}, {}
for i = 3, #ARGV, 3 do
  local r = current(ARGV[i], ARGV[i + 1], ARGV[i + 2])
  answer[#answer + 1] = r and give_back(ARGV[i], r, ARGV[2] ~= '1' and back or nil, members) or 0
end
place_back(back, members)
return answer
`,
);

/** ARGV queue, reason, receipts. For each 1 (moved to the dead letters) or 0 (stale). */
export const FAIL = queueScript(
  "fail",
  `
local answer, at, any = {}, now_ms(), false
for i = 3, #ARGV, 3 do
  local r = current(ARGV[i], ARGV[i + 1], ARGV[i + 2])
  answer[#answer + 1] = r and fail(ARGV[i], r, ARGV[2], at) or 0
  any = any or r ~= nil
end
if not any then masters_word() end
return answer
`,
);

/** ARGV queue, lease ms, alive ms, receipts. For each 1 (renewed) or 0 (stale). */
export const RENEW = queueScript(
  "renew",
  `
masters_word()
local answer, at = {}, now_ms()
for i = 4, #ARGV, 3 do
  local id = ARGV[i]
  local r = current(id, ARGV[i + 1], ARGV[i + 2])
  if r then
    r.till = int(at + tonumber(ARGV[2]))
    r.length = int(tonumber(ARGV[2]))
    save(id, r)
    keep_alive(r.owner, ARGV[3])
  end
  answer[#answer + 1] = r and 1 or 0
end
return answer
`,
);

/**
 * ARGV queue, whether to ask for the role, first, last (as in ZRANGE). First the server's time in ms, its role
 * and how many are in processing, then five values for each message there between first and last: id, owner, its
 * record when that is of this very delivery (else ""; "bare" where the member is the id alone), "1" when the owner's
 * alive key exists, the score.
 */
export const SURVEY = queueScript(
  "survey",
  `
local answer = { int(now_ms()), server_role(ARGV[2]), redis.call('ZCARD', processing) }
local rows, living, at = redis.call('ZRANGE', processing, ARGV[3], ARGV[4], 'WITHSCORES'), {}, 3
for i = 1, #rows, 2 do
  local id, bar, owner = string.match(rows[i], '^([^|]*)(|?)(.*)$')
  local text = redis.call('HGET', deliveries, id)
  local r = text and parse(text)
  local alive = living[owner]
  if not alive then
    alive = tostring(redis.call('EXISTS', instances .. owner .. ':alive'))
    living[owner] = alive
  end
  answer[at + 1] = id
  answer[at + 2] = owner
  answer[at + 3] = bar == '' and 'bare' or r and r.owner == owner and owner ~= '' and text or ''
  answer[at + 4] = alive
  answer[at + 5] = rows[i + 1]
  at = at + 5
end
return answer
`,
  { readOnly: true },
);

/**
 * ARGV queue, then for each message to take back: id, owner, record as surveyed ("" where the owner
 * keeps none, "bare" where there is no owner). 1 (pending again), 2 (superseded) or 0 (renewed, settled or alive meanwhile).
 */
export const TAKE_BACK = queueScript(
  "take-back",
  `
masters_word()
local answer, back, members = {}, {}, {}
for i = 2, #ARGV, 3 do
  local id, owner, seen = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local member, r, outcome = id .. '|' .. owner, record(id), 0
  local same
  if seen == 'bare' then
    member, seen = id, ''
    -- Nobody's: a delivery that has an owner is to be judged first.
    same = not (r and r.owner ~= '' and redis.call('ZSCORE', processing, id .. '|' .. r.owner))
    if same and redis.call('LPOS', pending, id) then
      same = false
      outcome = redis.call('ZREM', processing, member) * 2
    end
  elseif seen == '' then
    same = (not r or r.owner ~= owner) and
      redis.call('EXISTS', instances .. owner .. ':alive') == 0
  else
    same = redis.call('HGET', deliveries, id) == seen
  end
  if same and redis.call('ZSCORE', processing, member) then
    if seen ~= '' and redis.call('HEXISTS', held, id) == 1 then
      outcome = 2
      superseded(id, member)
    else
      outcome = 1
      if seen == '' then
        r = { n = '0', till = '0', length = '0', order = '0', attempts = r and r.attempts or 0 }
      end
      r.owner = ''
      r.attempts = r.attempts + 1
      save(id, r)
      back[#back + 1] = id
      members[#members + 1] = member
    end
  end
  answer[#answer + 1] = outcome
end
place_back(back, members)
return answer
`,
);
