package mcp

// The headers of Streamable HTTP (basic/transports/streamable-http).
const (
	HeaderVersion = "Mcp-Protocol-Version"
	HeaderSession = "Mcp-Session-Id" // until 2025-11-25
	HeaderMethod  = "Mcp-Method"     // since 2026-07-28, as the next two
	HeaderName    = "Mcp-Name"
	HeaderParam   = "Mcp-Param-"  // begins the header of an argument
	HeaderHops    = "Runnel-Hops" // how many runnels a request has passed through
)

// HeaderNames are the members of params that HeaderName repeats, by method ("Standard Request Headers"; for tasks SEP-2663).
var HeaderNames = map[string]string{
	"tools/call": "name", "prompts/get": "name", "resources/read": "uri",
	"tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId",
}
