-- KEYS[1] says whose the namespace is. ARGV: the layout's version, and whether one that is not there is made. Answers with its id
-- and layout, as far as they are there.
local found = redis.call('HMGET', KEYS[1], 'id', 'layout')
if ARGV[2] == '1' and redis.call('HLEN', KEYS[1]) == 0 then
  local time = redis.call('TIME')
  local id = redis.sha1hex(KEYS[1] .. ' ' .. time[1] .. ' ' .. time[2])
  redis.call('HSET', KEYS[1], 'id', id, 'layout', ARGV[1])
  found = { id, ARGV[1] }
end
return found
