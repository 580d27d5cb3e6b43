package term

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// Each field of a question is asked for until it fits; --yes takes what is proposed.
func TestQuestions(t *testing.T) {
	params := `{"message":"fill \u001b[31min","requestedSchema":{"type":"object","properties":{
		"name":{"type":"string","description":"yours"},"age":{"type":"integer","default":7},"ok":{"type":"boolean"},
		"color":{"type":"string","enum":["red","blue"]},"note":{"type":"string"}},"required":["name","age","ok","color"]}}`
	for _, c := range []struct{ input, want string }{
		{"Ann\nx\n8\nmaybe\ny\ngreen\nblue\nhm\n",
			`{"action":"accept","content":{"age":8,"color":"blue","name":"Ann","note":"hm","ok":true}}`},
		{"Ann\n\nno\nred\n\n", `{"action":"accept","content":{"age":7,"color":"red","name":"Ann","ok":false}}`},
		{"\n", `{"action":"decline"}`},
		{"Ann\n", `{"action":"cancel"}`},
	} {
		var out bytes.Buffer
		a := &Asker{Stdin: strings.NewReader(c.input), View: NewView(&out, &out, "never", os.Getenv)}
		got, _ := json.Marshal(a.Ask(t.Context(), json.RawMessage(params)))
		if string(got) != c.want || strings.Contains(out.String(), "\x1b") {
			t.Errorf("%q: %s, want %s\n%s", c.input, got, c.want, &out)
		}
	}
	yes := &Asker{Yes: true}
	got, _ := json.Marshal(yes.Ask(t.Context(), json.RawMessage(params)))
	if want := `{"action":"accept","content":{"age":7,"color":"red","name":"yes","ok":true}}`; string(got) != want {
		t.Errorf("--yes: %s, want %s", got, want)
	}
	several := `{"requestedSchema":{"type":"object","properties":{
		"colors":{"type":"array","items":{"type":"string","enum":["red","blue"]}},"counts":{"type":"array","items":{"type":"integer"}},
		"any":{"type":"array"},"left":{"type":"array"}},"required":["colors","counts","any"]}}`
	got, _ = json.Marshal(yes.Ask(t.Context(), json.RawMessage(several)))
	if want := `{"action":"accept","content":{"any":[],"colors":["red"],"counts":[0]}}`; string(got) != want {
		t.Errorf("--yes: %s, want %s", got, want)
	}
	for input, want := range map[string]string{"perhaps\nyes\n": "accept", "N\n": "decline", "": "cancel"} {
		a := &Asker{Stdin: strings.NewReader(input),
			View: NewView(io.Discard, io.Discard, "never", os.Getenv)}
		if got := a.Ask(t.Context(), json.RawMessage(`{"message":"sure?"}`)); string(got.Action) != want {
			t.Errorf("%q: %s", input, got.Action)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	r, w := io.Pipe()
	defer w.Close()
	a := &Asker{Stdin: r, View: NewView(io.Discard, io.Discard, "never", os.Getenv)}
	if got := a.Ask(ctx, json.RawMessage(`{"message":"sure?"}`)); got.Action != "cancel" {
		t.Errorf("withdrawn: %s", got.Action)
	}
}
