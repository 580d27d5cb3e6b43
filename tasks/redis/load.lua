-- Returns stretches of output from the one on that holds a position, about so many bytes. ARGV: the position, the bytes.
local from, limit, bytes, list = string.format('%.0f', ARGV[5] + 1) .. '-0', tonumber(ARGV[6]), 0, {}
while bytes < limit do
	local some = redis.call('XRANGE', log, from, '+', 'COUNT', 8)
	for _, entry in ipairs(some) do
		list[#list + 1] = entry
		for _, value in ipairs(entry[2]) do bytes = bytes + #value end
		if bytes >= limit then return list end
	end
	if #some < 8 then return list end
	from = '(' .. some[#some][1]
end
return list
