-- ARGV: a key, and the value that it must have, byte for byte; and the value, without its time, that is written instead, if any is.
-- Answers with whether it was done.
if call('HGET', records, ARGV[1]) ~= ARGV[2] then return 0 end
-- The index first: if it refuses, nothing is done.
if #ARGV == 2 then
  call('ZREM', index, ARGV[1])
  call('HDEL', records, ARGV[1])
else
  call('ZADD', index, 0, ARGV[1])
  call('HSET', records, ARGV[1], now .. ARGV[3])
end
return 1
