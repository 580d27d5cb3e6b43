-- Says that this process lives for some time yet. ARGV: left is how long.
-- Leases that are long over go first. After a command that only takes away, a server whose memory is full takes more: who lives is known there, too.
redis.call('ZREMRANGEBYSCORE', root .. 'alive', '-inf', string.format('%.0f', now() - 3600000))
redis.call('ZADD', root .. 'alive', string.format('%.0f', now() + left), me)
return 'ok'
