-- Returns the version of what is stored here, and sets it if there is none: only that is refused by a server whose memory is full.
local version = redis.call('GET', root .. 'schema')
if version then return version end
redis.call('SET', root .. 'schema', schema)
return schema
