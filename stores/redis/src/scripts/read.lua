-- ARGV: keys. Answers with the time and, for each key, with what stands there.
local found = { now }
for at = 1, #ARGV, 1000 do
  for _, value in ipairs(call('HMGET', records, unpack(ARGV, at, math.min(at + 999, #ARGV)))) do
    found[#found + 1] = value
  end
end
return found
