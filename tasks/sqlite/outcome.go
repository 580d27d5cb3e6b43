package sqlite

import (
	"encoding/json"
	"errors"
	"fmt"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// storedOutcome is an Outcome as it stands in the database.
type storedOutcome struct {
	Result *mcp.CallToolResult `json:"result,omitempty"`
	Error  *rpc.Error          `json:"error,omitempty"`
	// Rest is what the result has beyond the output (partials.Ending).
	Rest    []json.RawMessage `json:"rest,omitempty"`
	IsError bool              `json:"isError,omitempty"`
}

func encodeOutcome(t *tasks.Task) ([]byte, error) {
	if t.Outcome == nil {
		return nil, nil
	}
	s := storedOutcome{Result: t.Outcome.Result, Error: t.Outcome.Err}
	if t.Segments != nil {
		if ending := t.Segments.Ending(); ending != nil {
			s.IsError, s.Rest = ending.IsError, ending.Rest
		}
	}
	encoded, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding the outcome: %w", err)
	}
	return encoded, nil
}

func decodeOutcome(encoded []byte) (*tasks.Outcome, *partials.Ending, error) {
	if len(encoded) == 0 {
		return nil, nil, nil
	}
	var s storedOutcome
	if err := json.Unmarshal(encoded, &s); err != nil {
		return nil, nil, fmt.Errorf("its result cannot be read: %w", err)
	}
	if (s.Result == nil) == (s.Error == nil) || !isLine(encoded) {
		return nil, nil, errors.New("its result cannot be read")
	}
	return &tasks.Outcome{Result: s.Result, Err: s.Error}, &partials.Ending{Rest: s.Rest, IsError: s.IsError}, nil
}
