package mcp

// Bounds of a line. Clients and routers read lines with limits, the shortest of them 1 MiB: every bound of content derives
// from that.
const (
	// MaxLine is what each line that is written stays below, in bytes.
	MaxLine = 1 << 20
	// MaxContent is how much of a line is content, in bytes of JSON. The rest is for ids, the task and its status, and other _meta.
	MaxContent = MaxLine - 32<<10
	// MaxPage is how much content one of several answers carries, where the client asks for the next.
	MaxPage = MaxLine / 2
	// MaxListPage is how much of a list, roughly, one of several answers shows.
	MaxListPage = MaxPage / 2
	// MaxText is how many bytes of text always fit, whatever they are: a control character takes six bytes in JSON.
	MaxText = MaxLine / 8
)
