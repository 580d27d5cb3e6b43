-- Every script begins with this. ARGV: the schema, this process, the id of a task, how long what belongs to the task is kept (ms).
local root, schema, me, id, left = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local task, log, ends, result = root .. 'task:' .. id, root .. 'log:' .. id, root .. 'ends:' .. id, root .. 'result:' .. id

local function now() -- ms since 1970
	local t = redis.call('TIME')
	return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function wake() redis.call('PUBLISH', root .. 'wake:' .. id, '') end

local function expire()
	for _, key in ipairs({task, log, ends, result}) do redis.call('PEXPIRE', key, left) end
	redis.call('ZADD', root .. 'expires', string.format('%.0f', now() + left), id)
end

local function forget() -- the task is deleted
	redis.call('DEL', task, log, ends, result)
	for _, key in ipairs({'tasks', 'starts', 'expires'}) do redis.call('ZREM', root .. key, id) end
	redis.call('HDEL', root .. 'live', id)
	redis.call('HDEL', root .. 'hidden', id)
	wake()
end
