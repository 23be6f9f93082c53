-- KEYS[3] is the user's. ARGV: its value, then keys and the fences of the tenures that must stand there, by turns. Answers with the time and
-- with whether it was set.
for at = 2, #ARGV, 2 do
  local found = call('HGET', records, ARGV[at])
  if not found or sub(found, 89, 104) ~= ARGV[at + 1] or sub(found, 105, 136) == NO_TENURE then return { now, 0 } end
end
call('SET', KEYS[3], ARGV[1])
return { now, 1 }
