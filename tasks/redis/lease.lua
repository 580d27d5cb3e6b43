-- Says that this process lives, for as long as left says.
-- Old leases are removed first: after a command that only removes something, a server whose memory is full accepts more.
redis.call('ZREMRANGEBYSCORE', root .. 'alive', '-inf', string.format('%.0f', now() - 3600000))
redis.call('ZADD', root .. 'alive', string.format('%.0f', now() + left), me)
return 'ok'
