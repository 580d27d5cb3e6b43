-- Makes this process the keeper of a task of a keeper that is gone or has not begun it. ARGV: the keeper that was seen, what runs it from now on.
local keeper, work = ARGV[5], ARGV[6]
local found = redis.call('HGET', task, 'keeper')
if found == me and redis.call('HGET', task, 'work') == work then return 'ok' end -- this is not the first try
if found ~= keeper then return 'fenced' end
redis.call('HSET', task, 'keeper', me, 'work', work)
redis.call('HSET', root .. 'live', id, me)
if redis.call('SREM', root .. 'asked:' .. keeper, id) == 1 then
	redis.call('SADD', root .. 'asked:' .. me, id)
	redis.call('PEXPIRE', root .. 'asked:' .. me, left)
end
wake()
return 'ok'
