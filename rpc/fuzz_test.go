package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"

	"runnel/rpc/rawjson"
	"unicode/utf8"
)

// Whatever a line is, a good one after it is answered, everything that is written is JSON-RPC, and the
// session ends as it should.
func FuzzLines(f *testing.F) {
	for _, line := range []string{
		``, "\r", `{}`, `[]`, `[1,{"jsonrpc":"2.0","id":1,"method":"ping"}]`, `null`,
		`{"jsonrpc":"2.0","id":1.0,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":"a\"b\\","method":"echo","params":{"_meta":{"progressToken":1}},"sessionId":"s"}`,
		`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":1e99}}`, "\xff",
		"\ufeff{", `{"id":1,"id":2}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		initializeLine("2025-03-26"), strings.Repeat("[", 100),
		`{"method":"x","id":3,"p":"` + strings.Repeat("x", 3000) + `"}`,
	} {
		f.Add([]byte(line), false)
		f.Add([]byte(line), true)
	}
	f.Fuzz(func(t *testing.T, garbage []byte, session bool) {
		var in bytes.Buffer
		if session {
			in.WriteString(initializeLine("2025-03-26") + "\n")
		}
		in.Write(garbage)
		in.WriteString("\n" + `{"jsonrpc":"2.0","id":"the good one","method":"ping"}` + "\n")
		var out bytes.Buffer
		if err := echoServer(&Options{MaxLine: 2000}).Serve(t.Context(), &in, &out); err != nil {
			t.Fatalf("Serve: %v", err)
		}
		answered := false
		for line := range strings.Lines(out.String()) {
			answered = answered || line == `{"jsonrpc":"2.0","id":"the good one","result":{}}`+"\n"
			checkLine(t, line)
		}
		if !answered {
			t.Errorf("the good line was not answered:\n%s", out.String())
		}
	})
}

// Whatever a server writes, a good answer after it is taken.
func FuzzServerLines(f *testing.F) {
	for _, line := range []string{
		``, `{}`, `[]`, `[1,{"jsonrpc":"2.0","id":1,"method":"ping"}]`, `null`, "\xff",
		`{"jsonrpc":"2.0","id":"a","method":"x"}`,
		`{"jsonrpc":"2.0","id":7,"result":{}}`, `{"jsonrpc":"2.0","error":{},"id":7,"id":2}`,
		`{"jsonrpc":"2.0","method":"a","method":"b"}`,
		`{"jsonrpc":"2.0","error":{"code":1e99}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, garbage []byte) {
		asked := make(chan struct{})
		c := newClient(DialOptions{In: &firstWrite{done: asked}, MaxLine: 2000,
			OnNotification: func(string, json.RawMessage) {},
			Out: readAfter{asked,
				io.MultiReader(bytes.NewReader(garbage),
					strings.NewReader("\n"+`{"jsonrpc":"2.0","id":99,"result":{"good":true}}`+"\n"))},
			OnRequest: func(context.Context, string, json.RawMessage) (any, error) { return nil, nil }}, nil)
		c.outgoing.last = 98
		c.start()
		answer, err := c.Do(t.Context(), &Request{Method: "m"})
		if string(answer) != `{"good":true}` && !bytes.Contains(garbage, []byte("99")) {
			t.Errorf("the good answer was not taken: %s, %v", answer, err)
		}
		c.Close()
	})
}

// firstWrite closes done at the first Write.
type firstWrite struct {
	once sync.Once
	done chan struct{}
}

func (w *firstWrite) Write(p []byte) (int, error) {
	w.once.Do(func() { close(w.done) })
	return len(p), nil
}

func (w *firstWrite) Close() error { return nil }

// readAfter reads when a channel is closed.
type readAfter struct {
	when chan struct{}
	io.Reader
}

func (r readAfter) Read(p []byte) (int, error) {
	<-r.when
	return r.Reader.Read(p)
}

// checkLine checks that a line is one JSON-RPC response or a batch of them: the fuzzed server says nothing
// else.
func checkLine(t *testing.T, line string) {
	if !strings.HasSuffix(line, "\n") || !utf8.ValidString(line) ||
		strings.ContainsAny(line[:len(line)-1], "\r\n") {
		t.Errorf("not a line: %q", line)
	}
	var list []json.RawMessage
	if json.Unmarshal([]byte(line), &list) != nil {
		list = []json.RawMessage{json.RawMessage(line)}
	}
	for _, m := range list {
		var r map[string]json.RawMessage
		if err := json.Unmarshal(m, &r); err != nil {
			t.Fatalf("no object: %q", m)
		}
		_, hasResult := r["result"]
		_, hasError := r["error"]
		id, hasID := r["id"]
		if string(r["jsonrpc"]) != `"2.0"` || hasResult == hasError || hasResult && !hasID ||
			hasID && checkID(id) != "" {
			t.Errorf("no response: %s", m)
		}
		for name := range r {
			if !strings.Contains(" jsonrpc id result error sessionId ", " "+name+" ") {
				t.Errorf("a response has no %q: %s", name, m)
			}
		}
	}
}

// Taking an object apart finds what encoding/json finds.
func FuzzSplit(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":-1,"method":"a\\","params":[{"x":"}"},"]"],"\u0069x":null}`))
	f.Add([]byte(`{"a":1 , "b" :[ ] ,"c":{"d":"\\\""}}`))
	f.Add([]byte("{\t\"a\"\r:\n1\t,\r\"b\"\n:\t[\r1\n]\t}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Trim(b, " \t\r\n")
		if _, ok := rawjson.Scan(b); !ok || b[0] != '{' {
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatal(err)
		}
		got := map[string]json.RawMessage{}
		for it := rawjson.Over(b); it.Next(); {
			got[string(it.Name)] = it.Value
		}
		if len(got) != len(want) {
			t.Fatalf("got %d members of %q, want %d", len(got), b, len(want))
		}
		for name, v := range want {
			if !bytes.Equal(got[name], v) {
				t.Errorf("member %q is %q, want %q", name, got[name], v)
			}
		}
		// The id is found in a long line, in whatever pieces it comes.
		var l lineReader
		for i := range b {
			l.drop(b[i : i+1])
		}
		if m, id := parseMessage(b), findID(l.head, l.tail); id != nil && len(m.id) > 0 &&
			!bytes.Equal(id, m.id) {
			t.Errorf("%q was found in %q", id, b)
		}
	})
}
