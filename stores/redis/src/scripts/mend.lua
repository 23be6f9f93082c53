-- ARGV: a key, and the value that it must have, byte for byte; and the value, without its time, that is written instead, if any is.
-- Answers with whether it was done.
if call('HGET', records, ARGV[1]) ~= ARGV[2] then return 0 end
if #ARGV == 2 then
  call('HDEL', records, ARGV[1])
  call('ZREM', index, ARGV[1])
else
  call('HSET', records, ARGV[1], now .. ARGV[3])
  call('ZADD', index, 0, ARGV[1])
end
return 1
