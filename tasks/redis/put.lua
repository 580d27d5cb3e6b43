-- Stores a new task (fresh) or a later state of one.
-- ARGV: fresh, hidden, the number of this write, the record, variables, how many may live and may start in a minute (0 = any number).
local fresh, hidden, write, record, variables = ARGV[5] == '1', ARGV[6] == '1', tonumber(ARGV[7]), ARGV[8], ARGV[9]
local most_live, most_starts = tonumber(ARGV[10]), tonumber(ARGV[11])
local keeper = redis.call('HGET', task, 'keeper')

-- A task that keeps the files of another one counts for no limit.
local function keeps_files(one) return string.sub(one, -6) == '-files' end

local function next_place()
	if redis.call('EXISTS', root .. 'last') == 0 then -- the first task, or the server has dropped it
		local newest = redis.call('ZREVRANGEBYSCORE', root .. 'tasks', '9007199254740990', '0', 'WITHSCORES', 'LIMIT', 0, 1)
		redis.call('SET', root .. 'last', newest[2] and string.format('%.0f', newest[2]) or '0')
	end
	return redis.call('INCR', root .. 'last')
end

if fresh then
	if redis.call('EXISTS', task) == 1 then
		return keeper == me and 'ok' or 'fenced' -- ok: this is not the first try
	end
elseif keeper ~= me then
	return 'fenced'
elseif (tonumber(redis.call('HGET', task, 'write')) or 0) >= write then
	return 'ok' -- this one comes late
end

if not hidden and (fresh or redis.call('HEXISTS', task, 'hidden') == 1) then -- it becomes visible
	if most_live > 0 and redis.call('HLEN', root .. 'live') >= most_live then
		local live = 0
		for _, other in ipairs(redis.call('HKEYS', root .. 'live')) do
			if not keeps_files(other) then live = live + 1 end
		end
		if live >= most_live then return 'live' end
	end
	if most_starts > 0 then
		redis.call('ZREMRANGEBYSCORE', root .. 'starts', '-inf', string.format('%.0f', now() - 60000))
		if redis.call('ZCARD', root .. 'starts') >= most_starts then return 'starts' end
	end
	if not keeps_files(id) then
		redis.call('ZADD', root .. 'starts', string.format('%.0f', now()), id)
		redis.call('PEXPIRE', root .. 'starts', 60000)
	end
	redis.call('ZADD', root .. 'tasks', next_place(), id)
	redis.call('HSET', root .. 'live', id, me)
	redis.call('HDEL', root .. 'hidden', id)
	redis.call('HDEL', task, 'hidden')
	if variables ~= '' then redis.call('HSET', task, 'variables', variables) end
elseif fresh then
	redis.call('ZADD', root .. 'tasks', next_place(), id)
	redis.call('HSET', root .. 'hidden', id, me)
	redis.call('HSET', task, 'hidden', '1')
end
if fresh then redis.call('HSET', task, 'keeper', me, 'end', '0') end
redis.call('HSET', task, 'record', record, 'write', write)
expire()
wake()
return 'ok'
