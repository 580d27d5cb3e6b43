// Package upstream makes the tools, prompts and resources of other MCP servers those of this one. A Server starts when something of its own
// is needed, is started again as its policy says, and its calls go through tools/remote; a Set is all of them, beside a registry of tools.
package upstream
