-- Removes the marks of a task. ARGV: the keeper that they name.
for _, marks in ipairs({'live', 'hidden'}) do
	if redis.call('HGET', root .. marks, id) == ARGV[5] then redis.call('HDEL', root .. marks, id) end
end
return 'ok'
