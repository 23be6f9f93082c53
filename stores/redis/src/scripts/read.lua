-- ARGV: keys. Answers with the time and, for each key, what stands there.
local found = {}
for at = 1, #ARGV, 1000 do
  for _, value in ipairs(redis.call('HMGET', records, unpack(ARGV, at, math.min(at + 999, #ARGV)))) do
    found[#found + 1] = value
  end
end
return { clock(), found }
