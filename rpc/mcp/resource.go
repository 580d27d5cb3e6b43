package mcp

// CodeResourceNotFound answers a request for an unknown resource in the handshake era (server/resources,
// "Error Handling").
const CodeResourceNotFound = -32002

// MetaNext is the position after a resource's contents, from which to read on.
const MetaNext = "runnel/next"

// MetaSHA256 is the hash of a file, in hexadecimal, in the _meta of its link and of its contents.
const MetaSHA256 = "runnel/sha256"

// ResourcesCapability is capabilities.resources.
type ResourcesCapability struct {
	Subscribe   bool `json:"subscribe,omitempty"`
	ListChanged bool `json:"listChanged,omitempty"`
}

// Resource is an entry of "resources/list".
type Resource struct {
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"` // since 2025-06-18
	Description string `json:"description,omitempty"`
	MimeType    string `json:"mimeType,omitempty"`
	Size        int64  `json:"size,omitempty"` // in bytes; 0 = not known
}

// ResourceTemplate is an entry of "resources/templates/list".
type ResourceTemplate struct {
	URITemplate string `json:"uriTemplate"`
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	MimeType    string `json:"mimeType,omitempty"`
}

// ResourceParams are the params of "resources/read", "resources/subscribe", "resources/unsubscribe" and of
// "notifications/resources/updated".
type ResourceParams struct {
	URI string `json:"uri"`
}
