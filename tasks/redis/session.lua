-- Stores a session of an HTTP client. id is the session's. ARGV: its version as it was seen, what it becomes.
local session = root .. 'session:' .. id
local version = tonumber(redis.call('HGET', session, 'version') or '0')
if version ~= tonumber(ARGV[5]) then
	local ran = version == tonumber(ARGV[5]) + 1 and redis.call('HGET', session, 'data') == ARGV[6]
	return ran and string.format('%.0f', version) or 'changed'
end
redis.call('HSET', session, 'version', string.format('%.0f', version + 1), 'data', ARGV[6])
redis.call('PEXPIRE', session, left)
return string.format('%.0f', version + 1)
