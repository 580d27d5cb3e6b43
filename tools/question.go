package tools

import (
	"encoding/json"
	"errors"
	"fmt"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tools/schema"
)

// Question is what a tool asks the client's user. Pass it to [Call.Ask].
type Question struct {
	Message string
	// Schema of the answer's content: a JSON Schema object with properties of primitive types
	// (2025-06-18 client/elicitation, "Requested Schema").
	Schema json.RawMessage
}

// Answer is the user's reaction to a question.
// Call.Ask returns it; only an accepted one has content.
type Answer struct {
	Action  mcp.ElicitAction
	Content json.RawMessage // with mcp.ElicitAccept: what the schema asks for
}

// ErrCannotAsk is returned by [Call.Ask] if the client has no way to ask its user.
var ErrCannotAsk = errors.New("this client cannot ask its user: it does not support elicitation")

// check returns an error if the content of an answer is invalid. Servers "SHOULD validate received data
// matches the requested schema" (client/elicitation, "Security Considerations"). No content is an empty form.
func (q *Question) check(content json.RawMessage) error {
	if len(content) == 0 {
		content = json.RawMessage("{}")
	}
	if !rawjson.IsObject(content) {
		return errors.New("has content that is not an object")
	}
	if len(q.Schema) == 0 {
		return nil
	}
	if err := schema.New(q.Schema, "field").Check(content); err != nil {
		return fmt.Errorf("has %w", err)
	}
	return nil
}

// fits returns an error if a client cannot show this question, though it shows others.
func (q *Question) fits(c *rpc.Caller) error {
	if c != nil && !c.Version.MultiSelect && q.takesSeveral() {
		return fmt.Errorf("this client cannot ask its user: protocol version %s has no field of several choices", c.Version.Name)
	}
	return nil
}

// takesSeveral reports whether the form has a field with several choices, the only kind of field that is an
// array (2025-11-25 client/elicitation, "Multi-select enum").
func (q *Question) takesSeveral() bool {
	var form struct {
		Properties map[string]struct {
			Type string `json:"type"`
		} `json:"properties"`
	}
	_ = json.Unmarshal(q.Schema, &form) // a member of the wrong type reads as absent
	for _, field := range form.Properties {
		if field.Type == "array" {
			return true
		}
	}
	return false
}
