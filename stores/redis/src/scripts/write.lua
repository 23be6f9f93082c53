-- ARGV: a channel, then four for each write: key, what is expected (absent, vacant, or a version), value without its time, and whether
-- to tell of it in any case. Answers with the time, and for each write with 1 if it was done as sent; with 1 and the fence if that was
-- raised; with what stands there if that is in the way; with 2 and what stands there if that is damaged; and with 3 and the server's words
-- if the index refuses its key; if it refuses that of each write, the whole is refused. No other command that fails comes after one that has
-- written a record, which would be told as refused.
-- Lua's numbers hold 53 bits: fences are handled as two halves. They are not compared as texts, as that goes by the server's locale.
local function half(digits, at) return tonumber(sub(digits, at, at + 7), 16) end
local function raised(value, high, low)
  low = low + 1
  if low == 4294967296 then high, low = high + 1, 0 end
  -- As Version::of has it, a version's high half is that of the nonce xor the fence.
  local version = bit.tohex(bit.bxor(half(value, 41), half(value, 73), high))
    .. bit.tohex(bit.bxor(half(value, 49), half(value, 81), low)) .. sub(value, 57, 72)
  local fence = bit.tohex(high) .. bit.tohex(low)
  local rest = version .. fence .. sub(value, 89)
  return redis.sha1hex(rest) .. rest, fence
end

local answers, refused = { now }, 0
for at = 2, #ARGV, 4 do
  local key, expect, value = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local found = call('HGET', records, key)
  local answer, is_done = found, false
  if not found then
    is_done = expect == 'absent' or expect == 'vacant'
  elseif redis.sha1hex(sub(found, 57)) ~= sub(found, 17, 56) then
    answer = { 2, found }
  elseif expect ~= 'vacant' then
    is_done = expect == sub(found, 57, 88)
  elseif sub(found, 105, 136) == NO_TENURE then
    local last = sub(found, 89, 104)
    if #last ~= 16 or string.find(last, '%X') then
      answer = { 2, found }
    else
      local high, low, floor = half(last, 1), half(last, 9), half(value, 73)
      is_done = high < 0x7fffffff or high == 0x7fffffff and low < 0xffffffff
      if is_done and (high > floor or high == floor and low >= half(value, 81)) then
        local fence
        value, fence = raised(value, high, low)
        answer = { 1, fence }
      end
    end
  end
  -- The index first: a key there without a record does no harm, if what follows is refused.
  if is_done and not found then
    local added = redis.pcall('ZADD', index, 0, key)
    if type(added) == 'table' then
      is_done, answer, refused = false, { 3, added.err }, refused + 4
      -- The server itself refuses, such as one that has become a replica.
      if refused == #ARGV - 1 then return added end
    end
  end
  if is_done then
    if answer == found then answer = 1 end
    call('HSET', records, key, now .. value)
    local before = found and sub(found, 105, 136) or NO_TENURE
    local is_taken_over = before ~= NO_TENURE and before ~= sub(value, 89, 120)
    -- A hint that can't be sent is missing, no more.
    if ARGV[at + 3] == '1' or is_taken_over then
      redis.pcall('PUBLISH', ARGV[1], sub(value, 41, 72) .. ' ' .. key)
    end
  end
  answers[#answers + 1] = answer
end
return answers
