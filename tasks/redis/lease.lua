-- Says that this process lives for some time yet. ARGV: left is how long.
redis.call('ZADD', root .. 'alive', string.format('%.0f', now() + left), me)
return 'ok'
