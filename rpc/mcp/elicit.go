package mcp

import "encoding/json"

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
