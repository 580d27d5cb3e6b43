package term

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"runnel/rpc/mcp"
)

// Asker puts a server's questions to the user of a terminal, one at a time.
//
// Goroutines: one reads stdin from the first question on. Nothing can end a read of a terminal, so it stays
// until the process exits.
type Asker struct {
	Stdin io.Reader
	View  *View
	Yes   bool // accept everything without asking

	turn  sync.Mutex
	lines chan string // nil before the first question; closed at the end of stdin
}

// Ask asks one question: params are those of elicitation/create.
func (a *Asker) Ask(ctx context.Context, params json.RawMessage) mcp.ElicitResult {
	var p mcp.ElicitParams
	_ = json.Unmarshal(params, &p) // members of a wrong type read as absent
	fields := ReadForm(p.RequestedSchema)
	if a.Yes {
		return accept(fields)
	}
	a.turn.Lock()
	defer a.turn.Unlock()
	if ctx.Err() != nil {
		return mcp.ElicitResult{Action: mcp.ElicitCancel}
	}
	defer a.View.hush()()
	_, _ = fmt.Fprintf(a.View, "? %s\n", Printable(p.Message))
	if len(fields) == 0 {
		for {
			line, ok := a.read(ctx, "  [y]es or [n]o: ")
			switch strings.ToLower(line) {
			case "y", "yes":
				return accepted(map[string]json.RawMessage{})
			case "n", "no":
				return mcp.ElicitResult{Action: mcp.ElicitDecline}
			}
			if !ok {
				return mcp.ElicitResult{Action: mcp.ElicitCancel}
			}
		}
	}
	content := map[string]json.RawMessage{}
	for _, f := range fields {
		v, action := a.field(ctx, &f)
		if action != mcp.ElicitAccept {
			return mcp.ElicitResult{Action: action}
		}
		if v != nil {
			content[f.Name] = v
		}
	}
	return accepted(content)
}

func accepted(content map[string]json.RawMessage) mcp.ElicitResult {
	b, _ := json.Marshal(content)
	return mcp.ElicitResult{Action: mcp.ElicitAccept, Content: b}
}

// field asks for one value, nil if it is left out. An empty answer to a required field declines the question.
func (a *Asker) field(ctx context.Context, f *Field) (json.RawMessage, mcp.ElicitAction) {
	prompt := "  " + Printable(f.Name)
	if f.Description != "" {
		prompt += " (" + Printable(f.Description) + ")"
	}
	words := f.Words()
	if slices.Contains(f.AllTypes(), "boolean") {
		words = []string{"yes", "no"}
	}
	if len(words) > 0 {
		prompt += " [" + Printable(strings.Join(words, ", ")) + "]"
	}
	switch {
	case f.Default != nil:
		prompt += " (empty: " + Printable(Unquoted(f.Default)) + ")"
	case f.required:
		prompt += " (empty: decline)"
	}
	for {
		line, ok := a.read(ctx, prompt+": ")
		switch {
		case !ok && line == "":
			return nil, mcp.ElicitCancel
		case line == "" && f.Default == nil && f.required:
			return nil, mcp.ElicitDecline
		case line == "":
			return f.Default, mcp.ElicitAccept
		}
		if slices.Contains(f.AllTypes(), "boolean") {
			switch strings.ToLower(line) {
			case "y", "yes":
				line = "true"
			case "n", "no":
				line = "false"
			}
		} else if len(words) > 0 && !slices.Contains(words, line) {
			_, _ = fmt.Fprintf(a.View, "  one of: %s\n", Printable(strings.Join(words, ", ")))
			continue
		}
		v, err := f.Value(line)
		if err == nil {
			return v, mcp.ElicitAccept
		}
		_, _ = fmt.Fprintf(a.View, "  %s\n", Printable(err.Error()))
	}
}

// read shows a prompt and reads a line; ok is false when stdin or ctx ends.
func (a *Asker) read(ctx context.Context, prompt string) (line string, ok bool) {
	if a.lines == nil {
		a.lines = make(chan string)
		go func(lines chan<- string) {
			defer close(lines)
			for s := bufio.NewScanner(a.Stdin); s.Scan(); {
				lines <- strings.TrimSpace(s.Text())
			}
		}(a.lines)
	}
	_, _ = io.WriteString(a.View, prompt)
	select {
	case line, ok = <-a.lines:
		return line, ok
	case <-ctx.Done():
		_, _ = io.WriteString(a.View, "\n")
		return "", false
	}
}

// accept is the answer of --yes: a value for each field that proposes some or is required.
func accept(fields []Field) mcp.ElicitResult {
	content := map[string]json.RawMessage{}
	for _, f := range fields {
		if f.required || f.Default != nil || len(f.values()) > 0 || slices.Contains(f.AllTypes(), "boolean") {
			content[f.Name] = f.plainest()
		}
	}
	return accepted(content)
}

// plainest returns the default of a field, else the first or simplest value that it takes.
func (p *Field) plainest() json.RawMessage {
	values, types := p.values(), p.AllTypes()
	switch {
	case p.Default != nil:
		return p.Default
	case len(values) > 0:
		return values[0]
	case slices.Contains(types, "boolean"):
		return json.RawMessage("true")
	case slices.Contains(types, "integer"), slices.Contains(types, "number"):
		return json.RawMessage("0")
	case slices.Contains(types, "array") && p.Items != nil:
		return slices.Concat([]byte{'['}, p.Items.plainest(), []byte{']'})
	case slices.Contains(types, "array"):
		return json.RawMessage("[]")
	}
	return json.RawMessage(`"yes"`)
}
