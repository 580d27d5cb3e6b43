-- Ends a task. ARGV: the keeper, the record, the outcome.
local keeper, record, outcome = ARGV[5], ARGV[6], ARGV[7]
local found = redis.call('HGET', task, 'keeper')
if found ~= keeper then
	if not found and redis.call('HGET', task, 'by') == me then return 'ok' end -- an earlier try has done it
	return 'fenced'
end
if keeper ~= me then
	local lease = redis.call('ZSCORE', root .. 'alive', keeper)
	if lease and tonumber(lease) > now() then return 'fenced' end -- it lives
end
redis.call('HDEL', task, 'keeper') -- first: after a command that only removes something, a server whose memory is full accepts the end
redis.call('HSET', task, 'record', record, 'by', me)
redis.call('SET', result, outcome)
redis.call('HDEL', root .. 'live', id)
redis.call('HDEL', root .. 'hidden', id)
redis.call('SREM', root .. 'asked:' .. keeper, id)
expire()
wake()
return 'ok'
