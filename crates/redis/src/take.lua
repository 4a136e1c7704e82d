-- Takes one request out of a rate: the generic cell rate algorithm on the clock of Redis.
-- KEYS: the rate of a key, the note of `beat.lua`.
-- ARGV: microseconds per request, of a whole burst, and until all servers have found Redis again.
-- Returns 0, or the microseconds to wait, or -1 if the note is gone and so are the rates.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local each, room, settle = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local since = tonumber(redis.call('HGET', KEYS[2], 'since') or nil)
if not since then
  return -1
end
-- A Redis that just began has no memory of earlier requests, so every burst begins used up.
local full = math.max(now, tonumber(redis.call('GET', KEYS[1]) or 0), since + settle + room)
local after = full + each
if after > now + room then
  return math.ceil(after - now - room)
end
redis.call('SET', KEYS[1], string.format('%.0f', after), 'PX', math.ceil((after - now) / 1000))
return 0
