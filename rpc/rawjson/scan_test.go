package rawjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

const anEcho = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}`

var scanSeeds = []string{
	`{}`, `[]`, `"a\u00e4\"\\\/\b"`, `"\x"`, `"\u12g4"`, "\"\x1f\"", `"`, `-0.5e+10`, `01`, `-`, `1.`, `1e`,
	`.5`, `tru`, `true`, `null`, `nul`,
	`{"a":1,}`, `{"a" : [1, 2 ,{ } ] }`, `{"a":1 "b":2}`, `[1,]`, `[1 2]`, `{1:2}`, `{"a"}`, `{"a":}`, ` 1`,
	`1 `, "\xff", `"` + "\xff" + `"`,
	anEcho, `{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}`,
	`{"jsonrpc":"2.0","\u0069d":1,"method":"x","sessionId":"s","result":{},"error":null}`,
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
		if values, ok := Scan(trimmed); ok != (json.Valid(text) && utf8.Valid(text)) ||
			ok && values != count(trimmed) {
			t.Fatalf("%q: scanned %v, %d values", text, ok, values)
		}
	})
}

// count is how many values are in valid JSON.
func count(value []byte) (values int) {
	for it := Over(value); it.Next(); {
		values += count(it.Value)
	}
	return values + 1
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

func TestScanAllocates(t *testing.T) {
	line := []byte(anEcho)
	if n := testing.AllocsPerRun(1000, func() {
		if _, ok := Scan(line); !ok {
			t.Fatal("refused")
		}
	}); n > 0 {
		t.Errorf("%v allocations a line, want none", n)
	}
}

func BenchmarkScan(b *testing.B) {
	line := []byte(anEcho)
	b.Run("scan", func(b *testing.B) {
		for b.Loop() {
			Scan(line)
		}
	})
	b.Run("json", func(b *testing.B) {
		for b.Loop() {
			json.Valid(line)
		}
	})
}
