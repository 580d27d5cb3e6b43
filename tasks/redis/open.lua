-- Returns the version of what stands here. It is set where there is none.
redis.call('SETNX', root .. 'schema', schema)
return redis.call('GET', root .. 'schema')
