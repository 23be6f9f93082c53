-- ARGV: a channel, then seven for each write: key, what is expected (absent, vacant, or a version), fence, nonce, tenure, whether
-- to tell of it in any case, record. Answers with the time, and for each write whether it won, and its fence or what stands there.
local WON, LOST, DAMAGED = 1, 0, 2
local LAST_FENCE = '7fffffffffffffff'
local now = clock()

local function write(key, expect, fence, nonce, tenure, is_news, record)
  local found = redis.call('HGET', records, key)
  if found and not is_whole(found) then return { DAMAGED, found } end
  local holds
  if not found then
    holds = expect == 'absent' or expect == 'vacant'
  elseif expect == 'vacant' then
    holds = tenure_of(found) == NO_TENURE and fence_of(found) < LAST_FENCE
    local least = holds and next_fence(fence_of(found))
    if least and least > fence then fence = least end
  else
    holds = expect == version(nonce_of(found), fence_of(found))
  end
  if not holds then return { LOST, found } end
  -- The index first: a key there without a record does no harm, if what follows is refused.
  if not found then redis.call('ZADD', index, 0, key) end
  redis.call('HSET', records, key, pack(now, fence, nonce, tenure, record))
  local is_taken_over = found and tenure_of(found) ~= NO_TENURE and tenure_of(found) ~= tenure
  -- A hint that can't be sent is missing, no more.
  if is_news == '1' or is_taken_over then
    redis.pcall('PUBLISH', ARGV[1], version(nonce, fence) .. ' ' .. key)
  end
  return { WON, fence }
end

local answers = {}
for at = 2, #ARGV, 7 do
  answers[#answers + 1] = write(unpack(ARGV, at, at + 6))
end
return { now, answers }
