-- ARGV: where the page begins and where it must end, as ZRANGEBYLEX has it, and how many records it may have. Answers with the
-- time, and keys and values by turns.
local from, to, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])
keep_index()
local page = {}
while #page < 2 * limit do
  local wanted = math.min(limit - #page / 2, 1000)
  local keys = redis.call('ZRANGEBYLEX', index, from, to, 'LIMIT', 0, wanted)
  if #keys == 0 then break end
  for at, value in ipairs(redis.call('HMGET', records, unpack(keys))) do
    -- One that was deleted by hand may still be in the index.
    if value then
      page[#page + 1] = keys[at]
      page[#page + 1] = value
    end
  end
  if #keys < wanted then break end
  from = '(' .. keys[#keys]
end
return { clock(), page }
