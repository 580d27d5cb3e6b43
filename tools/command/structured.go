package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tools/config"
	"runnel/tools/schema"
)

// Kinds of structuredContent that a config may ask for. Hosts that find it in a result show their model nothing else.
const (
	structuredNone    = "none"
	structuredSummary = "summary" // the output and what became of the command
	structuredJSON    = "json"    // what the command printed
)

// maxStructured is how much structuredContent may take, in bytes of JSON: beside it the same stands as text.
const maxStructured = mcp.MaxContent / 2

// summarySchema describes the structuredContent of a summary. It requires nothing, and allows what a call that is handed over says
// instead.
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

// maxText is how much text the result has.
func maxText(f *config.Command) int {
	if f.Structured == structuredNone {
		return int(*f.MaxResult)
	}
	return int(min(*f.MaxResult, maxStructured-config.MinMaxResult))
}

// buildOutput checks what the config says about structuredContent.
func (c *Command) buildOutput() error {
	source := c.config.OutputSchema
	given := len(source) > 0 && string(source) != "{}"
	switch {
	case c.config.Structured == structuredSummary:
		c.outputSchema = summarySchema
	case c.config.Structured == structuredJSON && len(source) > 0:
		return c.buildOutputSchema(json.RawMessage(source))
	}
	if given && c.config.Structured != structuredJSON {
		return &config.Error{Key: "outputSchema", Problem: "describes what the command prints, which is not in the result as JSON", Allowed: "structured: json beside it"}
	}
	return nil
}

func (c *Command) buildOutputSchema(source json.RawMessage) error {
	if source[0] != '{' || !json.Valid(source) {
		return &config.Error{Key: "outputSchema", Problem: "is no mapping", Allowed: "a JSON Schema of type object"}
	}
	members := objectMembers(source)
	switch kind := string(members["type"]); kind {
	case `"object"`:
	case "":
		// "type" must be there (server/tools, "Output Schema", before 2026-07-28).
		begin := `{"type":"object"`
		if len(members) > 0 {
			begin += ","
		}
		source = append([]byte(begin), source[1:]...)
	default:
		return &config.Error{Key: "outputSchema.type", Problem: kind + ": what a tool returns is an object", Allowed: "object"}
	}
	c.outputSchema = source
	c.outputs = schema.New(source, "member")
	return nil
}

// checkOutput makes an error of a command that was to print JSON and has not.
func (c *Command) checkOutput(o *outcome) {
	if c.config.Structured != structuredJSON || o.failed() {
		return
	}
	if err := o.stdout.exact.check(c.outputs); err != nil {
		o.verdict = "its output is not the JSON that it should be: " + err.Error()
	}
}

// structured is the result's structuredContent, nil if it has none. A result that is an error has none that is JSON: hosts would show
// that instead of what went wrong.
func (o *outcome) structured(output string) json.RawMessage {
	switch {
	case o.config.Structured == structuredSummary:
		return rawjson.Encode(struct {
			Output string `json:"output"`
			*outcome
		}{output, o})
	case o.config.Structured == structuredJSON && !o.failed():
		return bytes.TrimSpace(o.stdout.exact.text)
	}
	return nil
}

// wholeText keeps all of a text, up to maxStructured.
type wholeText struct {
	text []byte
	long bool
}

func (w *wholeText) add(text []byte) {
	w.text = append(w.text, text[:min(len(text), maxStructured-len(w.text))]...)
	w.long = w.long || len(w.text) == maxStructured
}

// check reports where the text is not a JSON object that a schema allows; nil allows all.
func (w *wholeText) check(outputs *schema.Schema) error {
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
		return errors.New("line 1, column 1: an object belongs there, {...}")
	}
	if outputs == nil {
		return nil
	}
	return outputs.Check(object)
}
