-- Notes when this server of Redis began to be used, and proves that it takes writes.
-- KEYS: the note. Returns the time and the time of the note, in microseconds.
-- A server that was restarted has another run id: what it knew of rates may be gone or old.
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') or ''
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local known = redis.call('HMGET', KEYS[1], 'run', 'since')
local since = tonumber(known[2] or nil)
if known[1] ~= run or not since then
  since = now
  redis.call('HSET', KEYS[1], 'run', run, 'since', string.format('%.0f', now))
end
redis.call('HSET', KEYS[1], 'beat', string.format('%.0f', now))
return {now, since}
