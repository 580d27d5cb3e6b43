// Package mcp is the wire vocabulary of the Model Context Protocol (https://modelcontextprotocol.io):
// structs transcribed from the protocol's schema, error codes, and the one table of versions.
// It holds data only and imports nothing but the standard library.
package mcp

import (
	"encoding/json"
	"slices"
)

// Error codes of JSON-RPC 2.0 and MCP.
const (
	CodeParseError     = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternalError  = -32603
	// CodeBusy answers a request that is refused because a limit is reached. It is not a separate code:
	// 2026-07-28 asks implementations to use none from -32000 to -32099 ("Error Codes").
	CodeBusy = CodeInternalError
	// CodeStreamLost is runnel's own. A transport that connects again uses it to answer a subscription whose
	// connection was lost.
	CodeStreamLost = -31001
	// CodeSessionEnded is runnel's own, too. A transport answers with it a request that the server has not
	// taken, since it no longer knows the session.
	CodeSessionEnded = -31002
	// CodeNoSession answers a request over HTTP with an unknown session, until 2025-11-25. No specification
	// names it, but the official SDKs use it, and Claude Code recognizes by it the 404 after which it must
	// initialize again.
	CodeNoSession = -32001
	// CodeHeaderMismatch answers a request whose HTTP headers contradict its body (since 2026-07-28).
	CodeHeaderMismatch = -32020
	// CodeMissingCapability answers a request that needs a capability that its client did not declare (since
	// 2026-07-28).
	CodeMissingCapability = -32021
	// CodeUnsupportedVersion answers a request with a protocol version that is not supported (since
	// 2026-07-28).
	CodeUnsupportedVersion = -32022
)

// Keys of _meta.
const (
	MetaRelatedTask = "io.modelcontextprotocol/related-task"
	MetaStream      = "runnel/stream" // on text: StreamStderr, StreamEnd or StreamFiles
	// MetaCommand is how a command ended, on its result.
	MetaCommand = "runnel/command"
	// MetaUsage is what a language model has taken to answer, on its result: tokens and money.
	MetaUsage = "runnel/usage"
	// MetaFallbackMode is set on a handle if none of the client's response modes is available (SEP-1905).
	MetaFallbackMode = "io.modelcontextprotocol/fallback-mode"
	// MetaModelResponse is a text for the host's model when a task was created (2025-11-25
	// basic/utilities/tasks).
	MetaModelResponse = "io.modelcontextprotocol/model-immediate-response"

	// Keys of the stateless era (2026-07-28 basic, "_meta").
	MetaProtocolVersion    = "io.modelcontextprotocol/protocolVersion"
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaLogLevel           = "io.modelcontextprotocol/logLevel"
	MetaServerInfo         = "io.modelcontextprotocol/serverInfo"
	MetaClientInfo         = "io.modelcontextprotocol/clientInfo"
	MetaSubscriptionID     = "io.modelcontextprotocol/subscriptionId"
)

// Values of MetaStream.
const (
	StreamStderr = "stderr" // a command wrote it there
	StreamEnd    = "end"    // not output: how the command ended
	StreamFiles  = "files"  // not output: what became of files that the command has made
)

// Implementation names a client or a server.
type Implementation struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version"`

	// Since 2025-11-25.
	Description string          `json:"description,omitempty"`
	WebsiteURL  string          `json:"websiteUrl,omitempty"`
	Icons       json.RawMessage `json:"icons,omitempty"`
}

// For returns the members that a version has.
func (i Implementation) For(v *Version) Implementation {
	if !v.Titles {
		i.Title = ""
	}
	if !v.Icons { // all three came with one version
		i.Description = ""
		i.WebsiteURL = ""
		i.Icons = nil
	}
	return i
}

// InitializeParams are the params of "initialize".
type InitializeParams struct {
	ProtocolVersion string             `json:"protocolVersion"`
	Capabilities    ClientCapabilities `json:"capabilities"`
	ClientInfo      Implementation     `json:"clientInfo"`
}

// InitializeResult answers "initialize".
type InitializeResult struct {
	ProtocolVersion string             `json:"protocolVersion"`
	Capabilities    ServerCapabilities `json:"capabilities"`
	ServerInfo      Implementation     `json:"serverInfo"`
	Instructions    string             `json:"instructions,omitempty"`
}

// Present is a capability that is declared by any object.
type Present struct{}

// ClientCapabilities are the client's capabilities that runnel reads.
type ClientCapabilities struct {
	Elicitation *ElicitationCapability `json:"elicitation,omitempty"`
	Roots       *ListCapability        `json:"roots,omitempty"`
	Sampling    *SamplingCapability    `json:"sampling,omitempty"`
	Tasks       *ClientTasks           `json:"tasks,omitempty"`
	Extensions  map[string]any         `json:"extensions,omitempty"`

	PartialResults *Present `json:"partialResults,omitempty"` // SEP-2998
}

// Extensions that runnel knows.
const (
	// ExtensionTasks is the tasks extension (SEP-2663).
	ExtensionTasks = "io.modelcontextprotocol/tasks"
	// ExtensionTaskPartials is SEP-2679 in subscriptions.
	ExtensionTaskPartials = "runnel/task-partials"
)

// Extends reports whether the client declared an extension: "an empty object indicates support" (2026-07-28
// basic/versioning), and a value that is not an object does not.
func (c *ClientCapabilities) Extends(id string) bool {
	_, ok := c.Extensions[id].(map[string]any)
	return ok
}

// ElicitationCapability says which kinds of elicitation a client can show; an empty one means forms.
type ElicitationCapability struct {
	Form *Present `json:"form,omitempty"`
	URL  *Present `json:"url,omitempty"`
}

// SamplingCapability is the client's capabilities.sampling.
type SamplingCapability struct {
	Context *Present `json:"context,omitempty"` // since 2025-11-25, as Tools
	Tools   *Present `json:"tools,omitempty"`
}

// ListCapability is the capability of a list: a server's tools and prompts, a client's roots before
// 2026-07-28.
type ListCapability struct {
	ListChanged bool `json:"listChanged,omitempty"`
}

// ClientTasks is the client's capabilities.tasks.
type ClientTasks struct {
	Streaming *TaskStreaming `json:"streaming,omitempty"`
	Responses *TaskResponses `json:"responses,omitempty"`
}

// TaskResponses is capabilities.tasks.responses of either side (SEP-1905, "Capability").
type TaskResponses struct {
	Modes []ResponseMode `json:"modes"`
}

// ResponseMode is a way to answer a task-augmented request (SEP-1905).
type ResponseMode string

// The response modes, in the order in which a server prefers them.
const (
	ModeImmediate ResponseMode = "immediate"
	ModeStreaming ResponseMode = "streaming"
	ModeTask      ResponseMode = "task"
)

// TaskStreaming is capabilities.tasks.streaming of either side (SEP-2679, 2.1 and 2.2).
type TaskStreaming struct {
	Partial *Present `json:"partial,omitempty"`
}

// StreamsPartials reports whether the client declared tasks.streaming.partial (SEP-2679, 2.2).
func (c *ClientCapabilities) StreamsPartials() bool {
	return c.Tasks != nil && c.Tasks.Streaming != nil && c.Tasks.Streaming.Partial != nil
}

// StreamsResponses reports whether the client declared that it accepts several responses to one request
// (SEP-1905).
func (c *ClientCapabilities) StreamsResponses() bool {
	return c.Tasks != nil && c.Tasks.Responses != nil &&
		slices.Contains(c.Tasks.Responses.Modes, ModeStreaming)
}

// AsksByForm reports whether the client can show its user a form (client/elicitation; an empty capability
// means forms).
func (c *ClientCapabilities) AsksByForm() bool {
	return c.Elicitation != nil && (c.Elicitation.Form != nil || c.Elicitation.URL == nil)
}

// ServerCapabilities are a server's capabilities, as far as runnel knows them.
type ServerCapabilities struct {
	Tools       *ListCapability      `json:"tools,omitempty"`
	Resources   *ResourcesCapability `json:"resources,omitempty"`
	Prompts     *ListCapability      `json:"prompts,omitempty"`
	Completions *Present             `json:"completions,omitempty"` // since 2025-03-26
	Logging     *Present             `json:"logging,omitempty"`
	Tasks       *ServerTasks         `json:"tasks,omitempty"`

	Extensions map[string]json.RawMessage `json:"extensions,omitempty"` // since 2026-07-28
	// Others are the members of another server's capabilities that are none of these, such as experimental.
	Others map[string]json.RawMessage `json:"-"`
}

// MarshalJSON implements json.Marshaler.
func (c ServerCapabilities) MarshalJSON() ([]byte, error) {
	type known ServerCapabilities
	encoded, err := json.Marshal(known(c))
	if err != nil || len(c.Others) == 0 {
		return encoded, err
	}
	others, err := json.Marshal(c.Others)
	if len(encoded) > len("{}") {
		others[0] = ','
		return append(encoded[:len(encoded)-1], others...), err
	}
	return others, err
}

// Answers reports whether the server declared a response mode (SEP-1905).
func (c *ServerCapabilities) Answers(mode ResponseMode) bool {
	return c.Tasks != nil && c.Tasks.Responses != nil && slices.Contains(c.Tasks.Responses.Modes, mode)
}

// ServerTasks is the server's capabilities.tasks (2025-11-25, SEP-2679 2.1).
type ServerTasks struct {
	List      *Present       `json:"list,omitempty"`
	Cancel    *Present       `json:"cancel,omitempty"`
	Requests  *TaskRequests  `json:"requests,omitempty"`
	Streaming *TaskStreaming `json:"streaming,omitempty"`
	Responses *TaskResponses `json:"responses,omitempty"`
}

// TaskRequests names the requests that may be augmented with a task: tools/call.
type TaskRequests struct {
	Tools struct {
		Call Present `json:"call"`
	} `json:"tools"`
}

// RequestMeta is the part of a request's params._meta that runnel reads.
type RequestMeta struct {
	// A string or an integer, sent back byte for byte.
	ProgressToken  json.RawMessage `json:"progressToken,omitempty"`
	PartialResults bool            `json:"partialResults,omitempty"` // PR #383

	PartialResultToken json.RawMessage `json:"partialResultToken,omitempty"` // SEP-2998
	Variables          json.RawMessage `json:"runnel/variables,omitempty"`

	// The stateless era: nil = absent. What the client says about itself, a rpc.Caller also has in a session,
	// from its initialize.
	ProtocolVersion    json.RawMessage `json:"io.modelcontextprotocol/protocolVersion,omitempty"`
	ClientInfo         json.RawMessage `json:"io.modelcontextprotocol/clientInfo,omitempty"`
	ClientCapabilities json.RawMessage `json:"io.modelcontextprotocol/clientCapabilities,omitempty"`
	LogLevel           json.RawMessage `json:"io.modelcontextprotocol/logLevel,omitempty"`
}

// CancelledParams are the params of "notifications/cancelled".
type CancelledParams struct {
	RequestID json.RawMessage `json:"requestId"`
	Reason    string          `json:"reason,omitempty"`
	Meta      map[string]any  `json:"_meta,omitempty"`
}

// ElicitParams are the params of "elicitation/create" with a form (2025-06-18 client/elicitation).
type ElicitParams struct {
	Message         string          `json:"message"`
	RequestedSchema json.RawMessage `json:"requestedSchema"` // an object with properties of primitive types
	Meta            map[string]any  `json:"_meta,omitempty"`
}

// ElicitResult is what the user did with a question.
type ElicitResult struct {
	Action  ElicitAction    `json:"action"`
	Content json.RawMessage `json:"content,omitempty"` // with ElicitAccept: an object that fits the schema
}

// ElicitAction is how the user answered.
type ElicitAction string

// The three ways to answer.
const (
	ElicitAccept  ElicitAction = "accept"
	ElicitDecline ElicitAction = "decline"
	ElicitCancel  ElicitAction = "cancel"
)

// Valid reports whether the action is one of the three.
func (a ElicitAction) Valid() bool {
	return a == ElicitAccept || a == ElicitDecline || a == ElicitCancel
}

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
