-- ARGV: a key, and the version that it must have. Answers as a write does.
local found = redis.call('HGET', records, ARGV[1])
if not found then return { clock(), { { 0, false } } } end
if not is_whole(found) then return { clock(), { { 2, found } } } end
if version(nonce_of(found), fence_of(found)) ~= ARGV[2] then return { clock(), { { 0, found } } } end
redis.call('HDEL', records, ARGV[1])
redis.call('ZREM', index, ARGV[1])
return { clock(), { { 1, fence_of(found) } } }
