package rpc

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

const anEcho = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}`

var scanSeeds = []string{
	`{}`, `[]`, `"a\u00e4\"\\\/\b"`, `"\x"`, `"\u12g4"`, "\"\x1f\"", `"`, `-0.5e+10`, `01`, `-`, `1.`, `1e`, `.5`, `tru`, `true`, `null`, `nul`,
	`{"a":1,}`, `{"a" : [1, 2 ,{ } ] }`, `{"a":1 "b":2}`, `[1,]`, `[1 2]`, `{1:2}`, `{"a"}`, `{"a":}`, ` 1`, `1 `, "\xff", `"` + "\xff" + `"`,
	anEcho, `{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}`, `{"jsonrpc":"2.0","\u0069d":1,"method":"x","sessionId":"s","result":{},"error":null}`,
}

// scanner must accept what encoding/json accepts, and nothing else.
func FuzzScan(f *testing.F) {
	for _, s := range scanSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		trimmed := bytes.Trim(text, " \t\r\n")
		s := scanner{text: trimmed}
		if got, want := s.value(0, 0) == len(trimmed), json.Valid(text); got != want {
			t.Fatalf("%q: scanned %v, json.Valid %v", text, got, want)
		}
		if isCompact(text) {
			var compact bytes.Buffer
			if err := json.Compact(&compact, text); err != nil || !bytes.Equal(compact.Bytes(), text) {
				t.Fatalf("%q is not compact: %s, %v", text, &compact, err)
			}
		}
	})
}

// Where scanEnvelope has an answer it is the one of the slow way.
func FuzzScanEnvelope(f *testing.F) {
	for _, s := range scanSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		line = bytes.Trim(line, " \t\r\n")
		if len(line) == 0 || line[0] != '{' || !utf8.Valid(line) {
			return
		}
		got, ok := scanEnvelope(line)
		if problem := checkJSON(line); problem != "" {
			if ok {
				t.Fatalf("%q was taken for good: %s", line, problem)
			}
			return
		}
		want, twice := split(line)
		if !ok {
			if twice == "" && !bytes.Contains(line, []byte(`\`)) {
				t.Fatalf("%q was refused", line)
			}
			return
		}
		if twice != "" || !equalEnvelopes(got, want) {
			t.Fatalf("%q: got %q, want %q; twice %q", line, got, want, twice)
		}
	})
}

func equalEnvelopes(a, b envelope) bool {
	x := [][]byte{a.jsonrpc, a.id, a.method, a.params, a.result, a.err, a.session}
	y := [][]byte{b.jsonrpc, b.id, b.method, b.params, b.result, b.err, b.session}
	for i := range x {
		if !bytes.Equal(x[i], y[i]) || (x[i] == nil) != (y[i] == nil) {
			return false
		}
	}
	return true
}

func TestScanDepth(t *testing.T) {
	for _, depth := range []int{maxDepth, maxDepth + 1} {
		text := []byte(strings.Repeat("[", depth) + strings.Repeat("]", depth))
		s := scanner{text: text}
		if got, want := s.value(0, 0) == len(text), json.Valid(text); got != want {
			t.Errorf("depth %d: scanned %v, json.Valid %v", depth, got, want)
		}
	}
}

func TestScanEnvelopeAllocates(t *testing.T) {
	line := []byte(anEcho)
	if n := testing.AllocsPerRun(1000, func() {
		if _, ok := scanEnvelope(line); !ok {
			t.Fatal("refused")
		}
	}); n > 0 {
		t.Errorf("%v allocations a line, want none", n)
	}
}

func BenchmarkEnvelope(b *testing.B) {
	line := []byte(anEcho)
	b.Run("scan", func(b *testing.B) {
		for b.Loop() {
			scanEnvelope(line)
		}
	})
	b.Run("json", func(b *testing.B) {
		for b.Loop() {
			checkJSON(line)
			split(line)
		}
	})
}
