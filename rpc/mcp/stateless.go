package mcp

import "encoding/json"

// ResultType distinguishes the results of 2026-07-28 (basic, "ResultType").
type ResultType string

// The types of results.
const (
	ResultComplete      ResultType = "complete"
	ResultInputRequired ResultType = "input_required"
	ResultTask          ResultType = "task" // the tasks extension
)

// Cacheable are the caching hints of a result (server/utilities/caching).
type Cacheable struct {
	TTLMs      int64  `json:"ttlMs"`      // how long the result counts as fresh
	CacheScope string `json:"cacheScope"` // "public" or "private"
}

// DiscoverResult answers "server/discover".
type DiscoverResult struct {
	SupportedVersions []string           `json:"supportedVersions"`
	Capabilities      ServerCapabilities `json:"capabilities"`
	Instructions      string             `json:"instructions,omitempty"`
	Cacheable
}

// InputRequest is a request that a client carries out for the server (basic/patterns/mrtr):
// "elicitation/create".
type InputRequest struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// InputRequiredResult names the input that is needed before a request can be answered.
type InputRequiredResult struct {
	ResultType    ResultType              `json:"resultType"`
	InputRequests map[string]InputRequest `json:"inputRequests,omitempty"`
	RequestState  string                  `json:"requestState,omitempty"`
}

// DetailedTask is a task as clients of the tasks extension see it, with the members that its status adds.
type DetailedTask struct {
	ResultType     ResultType `json:"resultType,omitempty"`
	TaskID         string     `json:"taskId"`
	Status         TaskStatus `json:"status"`
	StatusMessage  string     `json:"statusMessage,omitempty"`
	CreatedAt      string     `json:"createdAt"`     // RFC 3339
	LastUpdatedAt  string     `json:"lastUpdatedAt"` // RFC 3339
	TTLMs          *int64     `json:"ttlMs"`         // from creation; null = unlimited
	PollIntervalMs int64      `json:"pollIntervalMs,omitempty"`

	InputRequests map[string]InputRequest `json:"inputRequests,omitempty"` // input_required
	Result        *CompleteResult         `json:"result,omitempty"`        // completed
	Error         any                     `json:"error,omitempty"`         // failed

	Meta map[string]any `json:"_meta,omitempty"`

	// WaitsFor says what the task waits for if a person can answer without the client, and how; else it is
	// "". No client gets it as a member.
	WaitsFor string `json:"-"`
}

// CompleteResult is a tool's result with its resultType.
type CompleteResult struct {
	ResultType ResultType `json:"resultType"`
	CallToolResult
}

// UpdateTaskParams are the params of "tasks/update", and those of "tasks/get" and "tasks/cancel".
type UpdateTaskParams struct {
	TaskID         string                     `json:"taskId"`
	InputResponses map[string]json.RawMessage `json:"inputResponses"`
	Meta           CancelMeta                 `json:"_meta,omitzero"` // tasks/cancel only
}

// ListenParams are the params of "subscriptions/listen".
type ListenParams struct {
	Notifications *SubscriptionFilter `json:"notifications"`
}

// SubscriptionFilter names the notifications that a subscription sends.
type SubscriptionFilter struct {
	ToolsListChanged      bool     `json:"toolsListChanged,omitempty"`
	PromptsListChanged    bool     `json:"promptsListChanged,omitempty"`
	ResourcesListChanged  bool     `json:"resourcesListChanged,omitempty"`
	ResourceSubscriptions []string `json:"resourceSubscriptions,omitempty"` // URIs
	TaskIDs               []string `json:"taskIds,omitempty"`               // the tasks extension
}
