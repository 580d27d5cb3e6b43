-- Deletes a task; if a keeper is named, one of that keeper, or the marks of one that is not there. ARGV: the keeper.
local keeper = ARGV[5]
if keeper ~= '' and redis.call('EXISTS', task) == 1 and redis.call('HGET', task, 'keeper') ~= keeper then return 'ok' end
forget()
return 'ok'
