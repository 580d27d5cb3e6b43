package mcp

// Bounds of a line, in bytes. Clients and routers read lines with limits, the lowest of them 1 MiB; every bound of content derives from that.
const (
	// MaxLine is the length that every written line stays below.
	MaxLine = 1 << 20
	// MaxContent is how much JSON content a line may have. The rest is for ids, the task and its status, and other _meta.
	MaxContent = MaxLine - 32<<10
	// MaxPage is how much content an answer may have if the client asks for the rest.
	MaxPage = MaxLine / 2
	// MaxListPage is roughly how much of a list one page has.
	MaxListPage = MaxPage / 2
	// MaxText is how many bytes of any text fit: a control character takes six bytes in JSON.
	MaxText = MaxLine / 8
)
