package mcp

import "slices"

// MCP Apps (SEP-1865, specification 2026-01-26): a tool names a page that its client shows beside a call, and the page calls tools.
const (
	// ExtensionUI is the extension that a client declares if it shows pages.
	ExtensionUI = "io.modelcontextprotocol/ui"
	// AppType is the media type of such a page.
	AppType = "text/html;profile=mcp-app"
)

// ShowsApps reports whether the client shows pages of AppType ("mimeTypes: Array of supported content types (REQUIRED)").
func (c *ClientCapabilities) ShowsApps() bool {
	settings, _ := c.Extensions[ExtensionUI].(map[string]any)
	types, _ := settings["mimeTypes"].([]any)
	return slices.Contains(types, any(AppType))
}
