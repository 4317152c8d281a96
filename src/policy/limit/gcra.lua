-- GCRA for several quotas at once: either all of them count the request, or none does.
-- KEYS: a name for each. ARGV: for each the µs in which one request comes back, and how many may come at once.
-- Gives two numbers for each: how many more may come at once, and the µs to wait where it refuses (else 0).

-- The server's time, so that clocks of replicas need not agree. Counted from 2023-11-14 on, a double has fractions of a µs.
local time = redis.call('TIME')
local now = (time[1] - 1700000000) * 1000000 + time[2]

local answer, due, passes = {}, {}, true
for i, key in ipairs(KEYS) do
  local interval, burst = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
  -- When the next request is due. Never later than a full burst from now: a clock that was set back, or a quota that was
  -- larger before, must not shut anybody out.
  local tat = tonumber(redis.call('GET', key) or now)
  tat = math.min(math.max(tat, now), now + burst * interval)
  local wait = tat + interval - burst * interval - now
  -- Less than a µs is rounding.
  if wait < 1 then
    due[i] = tat + interval
    answer[2 * i] = 0
  else
    passes = false
    answer[2 * i] = math.ceil(wait)
  end
  answer[2 * i - 1] = math.max(0, math.floor((now + burst * interval - tat) / interval + 0.001))
end
if passes then
  for i, key in ipairs(KEYS) do
    -- The key is worth nothing once the quota is whole again.
    redis.call('SET', key, string.format('%.3f', due[i]), 'PX', math.ceil((due[i] - now) / 1000))
    answer[2 * i - 1] = math.max(0, answer[2 * i - 1] - 1)
  end
end
return answer
