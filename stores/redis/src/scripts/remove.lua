-- ARGV: a key, and the version that it must have. Answers as a write does.
local found = call('HGET', records, ARGV[1])
if not found then return { now, false } end
if redis.sha1hex(sub(found, 57)) ~= sub(found, 17, 56) then return { now, { 2, found } } end
if sub(found, 57, 88) ~= ARGV[2] then return { now, found } end
-- The index first: if it refuses, nothing is done, and a page finds a key again that is only missing there.
call('ZREM', index, ARGV[1])
call('HDEL', records, ARGV[1])
return { now, 1 }
