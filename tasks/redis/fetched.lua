-- Notes that a client has got the result.
if redis.call('EXISTS', task) == 1 then redis.call('HSET', task, 'fetched', '1') end
return 'ok'
