-- Forgets some of the tasks that have expired, whose keys are gone or will be soon. Returns how many.
local gone = redis.call('ZRANGEBYSCORE', root .. 'expires', '-inf', string.format('%.0f', now()), 'LIMIT', 0, 200)
for _, expired in ipairs(gone) do
	id = expired
	task, log, ends, result = root .. 'task:' .. id, root .. 'log:' .. id, root .. 'ends:' .. id, root .. 'result:' .. id
	forget()
end
return tostring(#gone)
