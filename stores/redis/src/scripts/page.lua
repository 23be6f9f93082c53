-- ARGV: where the page begins and where it must end, as ZRANGEBYLEX has it, and how many records it may have. Answers with the
-- time, and then with keys and values by turns.
-- A missing index, or one that was changed by hand, shows by its size. It is made again from the records.
if call('HLEN', records) ~= call('ZCARD', index) then
  call('ZREMRANGEBYRANK', index, 0, -1)
  for _, key in ipairs(call('HKEYS', records)) do call('ZADD', index, 0, key) end
end
local from, to, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])
local page = { now }
while #page < 2 * limit do
  local wanted = math.min(limit - (#page - 1) / 2, 1000)
  local keys = call('ZRANGEBYLEX', index, from, to, 'LIMIT', 0, wanted)
  if #keys == 0 then break end
  for at, value in ipairs(call('HMGET', records, unpack(keys))) do
    -- One that was deleted by hand may still be in the index.
    if value then
      page[#page + 1] = keys[at]
      page[#page + 1] = value
    end
  end
  if #keys < wanted then break end
  from = '(' .. keys[#keys]
end
return page
