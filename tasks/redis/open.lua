-- Returns the version of what stands here. It is set where there is none: a server whose memory is full refuses no more than that.
local version = redis.call('GET', root .. 'schema')
if version then return version end
redis.call('SET', root .. 'schema', schema)
return schema
