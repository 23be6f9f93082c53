-- KEYS[1] is the hash of all records, KEYS[2] the index of their keys, a sorted set whose scores are all 0.
-- A record's value: time of the write in µs (16 digits), SHA-1 of all that follows (40), version (32), fence (16), id of the tenure or
-- dashes (32), and the encoded record. Clients make it, but for the time, which is the server's.
-- A function is made anew in each run of a script, and a call of the server costs as much as all else: both are spared.
local records, index = KEYS[1], KEYS[2]
local call, sub = redis.call, string.sub
local NO_TENURE = '--------------------------------'
-- The clock stands still while a script runs.
local time = call('TIME')
local now = sub('0000000000' .. time[1], -10) .. sub('00000' .. time[2], -6)
