-- Asks the keeper of a task to cancel it.
local keeper = redis.call('HGET', task, 'keeper')
if not keeper then return 'ok' end
redis.call('PEXPIRE', root .. 'asked:' .. keeper, left) -- first: after it a server whose memory is full accepts more, and cancelling makes room
redis.call('SADD', root .. 'asked:' .. keeper, id)
redis.call('PEXPIRE', root .. 'asked:' .. keeper, left)
redis.call('PUBLISH', root .. 'ask:' .. keeper, id)
return 'ok'
