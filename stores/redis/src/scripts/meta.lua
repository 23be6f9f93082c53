-- KEYS[1] says whose the namespace is; KEYS[2] has its records, where nothing is to be made. ARGV: the layout's version, and whether one
-- that is not there is made. Where there are records it is made in any case: the server has come back empty, and whoever was there has
-- gone on. Answers with its id and layout, as far as they are there.
local found = redis.call('HMGET', KEYS[1], 'id', 'layout')
local function has_records()
  -- Another program's key there is an error, which writes tell.
  local count = redis.pcall('HLEN', KEYS[2])
  return type(count) == 'number' and count > 0
end
if redis.call('HLEN', KEYS[1]) == 0 and (ARGV[2] == '1' or has_records()) then
  local time = redis.call('TIME')
  local id = redis.sha1hex(KEYS[1] .. ' ' .. time[1] .. ' ' .. time[2])
  redis.call('HSET', KEYS[1], 'id', id, 'layout', ARGV[1])
  found = { id, ARGV[1] }
end
return found
