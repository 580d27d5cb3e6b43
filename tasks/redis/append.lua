-- Stores extents of output and the numbers of segments. Together they go from one position to another.
-- ARGV: from, to, the last of the numbers ('' = there are none), the first, where their segments end; how many extents are cut out, and where
-- each ends; for each new extent where it ends, its marks and its data.
local from, to, last, first, numbers, cuts = ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], tonumber(ARGV[10])
if redis.call('HGET', task, 'keeper') ~= me then return 'fenced' end
local stored = redis.call('HGET', task, 'end')
if stored ~= from and stored ~= to then return 'lost' end
if stored == from then -- else this is not the first try
	for i = 11 + cuts, #ARGV, 3 do
		redis.call('XADD', log, ARGV[i] .. '-0', 'm', ARGV[i + 1], 'd', ARGV[i + 2])
	end
	redis.call('HSET', task, 'end', to)
end
if last ~= '' and #redis.call('XRANGE', ends, last .. '-0', '+', 'COUNT', 1) == 0 then
	redis.call('XADD', ends, last .. '-0', 'f', first, 'e', numbers)
end
for i = 11, 10 + cuts do redis.call('XDEL', log, ARGV[i] .. '-0') end
redis.call('PEXPIRE', log, left)
redis.call('PEXPIRE', ends, left)
wake()
return 'ok'
