-- Every script that writes goes on with this.
local version = redis.call('GET', root .. 'schema')
if not version then return 'removed' end
if version ~= schema then return 'newer' end
