-- Returns extents of output, from the one that holds a position. ARGV: the position, about how many bytes.
local from, limit, bytes, list = string.format('%.0f', ARGV[5] + 1) .. '-0', tonumber(ARGV[6]), 0, {}
local count = 1 -- one long extent may be enough; of short ones many are needed
while bytes < limit do
	local some = redis.call('XRANGE', log, from, '+', 'COUNT', count)
	for _, entry in ipairs(some) do
		list[#list + 1] = entry
		for _, value in ipairs(entry[2]) do bytes = bytes + #value end
		if bytes >= limit then return list end
	end
	if #some < count then return list end
	from, count = '(' .. some[#some][1], math.min(2 * count, 128)
end
return list
