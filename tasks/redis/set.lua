-- Replaces the variables of a task that has not ended. ARGV: as they were seen, as they become.
if redis.call('HEXISTS', task, 'keeper') == 0 then return 'ended' end
if (redis.call('HGET', task, 'variables') or '') ~= ARGV[5] then return 'changed' end
redis.call('HSET', task, 'variables', ARGV[6])
wake()
return 'ok'
