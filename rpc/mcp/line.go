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
	// MaxPassed is how long a line may be that passes on what another server has sent as one line: the client would read that line, too, from
	// the server. The official TypeScript client reads 10 MiB.
	MaxPassed = 8 << 20
	// MaxText is how many bytes of any text fit: a control character takes six bytes in JSON.
	MaxText = MaxLine / 8
)
