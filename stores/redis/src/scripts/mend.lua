-- ARGV: a key, and the value that it must have, byte for byte; fence, nonce, tenure and record of what is written instead, if
-- anything is. Answers with whether it was done.
if redis.call('HGET', records, ARGV[1]) ~= ARGV[2] then return 0 end
if #ARGV == 2 then
  redis.call('HDEL', records, ARGV[1])
  redis.call('ZREM', index, ARGV[1])
else
  redis.call('HSET', records, ARGV[1], pack(clock(), unpack(ARGV, 3, 6)))
  redis.call('ZADD', index, 0, ARGV[1])
end
return 1
