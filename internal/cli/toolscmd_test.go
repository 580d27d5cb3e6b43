package cli

import (
	"bytes"
	"encoding/json"
	"testing"

	"runnel/internal/serve"
	"runnel/rpc/mcp"
)

// A server's description of its tools moves no cursor, and stays on its line.
func TestToolsArePrintable(t *testing.T) {
	var out bytes.Buffer
	i := &invocation{Setup: serve.Setup{Stdout: &out}}
	list := []mcp.Tool{
		{Name: "a\x1b[2J\tb", Title: "t\x1b]0;x\a",
			InputSchema: json.RawMessage(`{"properties":{"x\u001b[1m\n":{"enum":["\u009b"]}}}`)},
		{Name: "c", Description: "\x1b[31md\te\nf"},
	}
	err := i.printTools(list)
	if want := "a [2J b  t ]0;x \nc         [31md e\n"; out.String() != want || err != nil {
		t.Errorf("got  %q\nwant %q, error %v", out.String(), want, err)
	}
	out.Reset()
	err = i.printTool(&list[0])
	if want := "a [2J b: t ]0;x \n\nCall it:\n  runnel call 'a [2J b' '[x [1m = ]'\n\nArguments:\n  x [1m =   \n"; out.String() != want || err != nil {
		t.Errorf("got  %q\nwant %q, error %v", out.String(), want, err)
	}
}
