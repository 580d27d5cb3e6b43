package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"runnel/rpc/mcp"
	"runnel/tools/schema"
)

// maxStructured is the longest structuredContent, in bytes of JSON. The result has the same as text, too.
const maxStructured = mcp.MaxContent / 2

// summarySchema describes the structuredContent of a summary. It has no required properties, because a call
// that is handed over returns taskId, status and next instead.
var summarySchema = json.RawMessage(`{"type":"object","properties":{` +
	`"output":{"type":"string","description":"what the command printed"},` +
	`"exitCode":{"type":["integer","null"],"description":"null when a signal ended the command"},` +
	`"signal":{"type":"string","description":"the signal that ended the command, such as SIGTERM, or empty"},` +
	`"durationMs":{"type":"integer"},` +
	`"stdoutBytes":{"type":"integer"},` +
	`"stderrBytes":{"type":"integer"},` +
	`"truncated":{"type":"boolean","description":"whether output was left out"},` +
	`"timedOut":{"type":"boolean"},` +
	`"taskId":{"type":"string"},` +
	`"status":{"type":"string"},` +
	`"next":{"type":"integer"}}}`)

// wholeText keeps all of a text, up to maxStructured.
type wholeText struct {
	text []byte
	long bool
}

func (w *wholeText) add(text []byte) {
	w.text = append(w.text, text[:min(len(text), maxStructured-len(w.text))]...)
	w.long = w.long || len(w.text) == maxStructured
}

// check returns an error, with its place, if the text is not a JSON object that fits the schema; nil = any
// object does.
func (w *wholeText) check(outputs *schema.Checker) error {
	if w.long {
		return fmt.Errorf("it is too long: the limit is %d bytes", maxStructured)
	}
	object := bytes.TrimSpace(w.text)
	if len(object) == 0 {
		return errors.New("it is empty")
	}
	var value json.RawMessage
	if err := json.Unmarshal(w.text, &value); err != nil {
		var syntax *json.SyntaxError
		if !errors.As(err, &syntax) {
			return err
		}
		before := w.text[:min(max(int(syntax.Offset)-1, 0), len(w.text))]
		line := bytes.Count(before, []byte("\n")) + 1
		column := len(before) - bytes.LastIndexByte(before, '\n')
		return fmt.Errorf("line %d, column %d: %w", line, column, err)
	}
	if object[0] != '{' {
		return errors.New("line 1, column 1: expected an object, {...}")
	}
	if outputs == nil {
		return nil
	}
	return outputs.Check(object)
}
