-- KEYS[1] is the hash of all records, KEYS[2] the index of their keys, a sorted set whose scores are all 0.
-- A record's value: digest of the rest, time of the write in µs, fence, nonce, id of the tenure or dashes, and the encoded record.
local records, index = KEYS[1], KEYS[2]

-- By the server's clock, which stands still while a script runs.
local function clock()
  local time = redis.call('TIME')
  return string.format('%010d%06d', time[1], time[2])
end

local function fence_of(value) return string.sub(value, 57, 72) end
local function nonce_of(value) return string.sub(value, 73, 104) end
local function tenure_of(value) return string.sub(value, 105, 136) end
local NO_TENURE = string.rep('-', 32)

-- Whether nobody has changed it around tenure.
local function is_whole(value)
  return #value > 136 and redis.sha1hex(string.sub(value, 41)) == string.sub(value, 1, 40)
end

local function pack(now, fence, nonce, tenure, record)
  local rest = now .. fence .. nonce .. tenure .. record
  return redis.sha1hex(rest) .. rest
end

-- Lua's numbers hold 53 bits: 64 are handled as two halves of hexadecimal digits.
local function half(digits, at) return tonumber(string.sub(digits, at, at + 7), 16) end

local function next_fence(fence)
  local low = half(fence, 9) + 1
  if low < 4294967296 then return string.sub(fence, 1, 8) .. string.format('%08x', low) end
  return string.format('%08x', half(fence, 1) + 1) .. '00000000'
end

-- As Version::of has it: the nonce, its high half xor the fence.
local function version(nonce, fence)
  local high = bit.tohex(bit.bxor(half(nonce, 1), half(fence, 1)))
  return high .. bit.tohex(bit.bxor(half(nonce, 9), half(fence, 9))) .. string.sub(nonce, 17)
end

-- A missing index, or one that was changed by hand, shows by its size. It is made again from the records.
local function keep_index()
  if redis.call('HLEN', records) == redis.call('ZCARD', index) then return end
  redis.call('ZREMRANGEBYRANK', index, 0, -1)
  for _, key in ipairs(redis.call('HKEYS', records)) do redis.call('ZADD', index, 0, key) end
end
