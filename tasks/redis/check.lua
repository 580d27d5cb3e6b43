-- Every script that writes continues with this.
local version = redis.call('GET', root .. 'schema')
if not version then return 'removed' end
if version ~= schema then return 'newer' end
