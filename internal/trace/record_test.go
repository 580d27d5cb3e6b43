package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"runnel/internal/term"
)

const (
	aHandle  = `{"jsonrpc":"2.0","id":3,"result":{"task":{"taskId":"x","status":"working","ttl":null,"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","pollInterval":100}}}`
	anEnd    = `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"x","status":"completed"}}`
	aPartial = `{"jsonrpc":"2.0","method":"notifications/tasks/partial","params":{"taskId":"x","seq":%d,"content":[{"type":"text","text":"%d\n"}]}}`
)

// A mistake of a broken server is shown on the line where it is seen.
func TestTraceOfABrokenServer(t *testing.T) {
	var out bytes.Buffer
	r := New(&out, "", nil)
	host, server := r.Lines(FromHost), r.Lines(fromServer)
	write := func(to func([]byte), lines ...string) {
		for _, line := range lines {
			to([]byte(line[:len(line)/2])) // in pieces
			to([]byte(line[len(line)/2:] + "\n"))
		}
	}
	write(server, fmt.Sprintf(aPartial, 0, 0))
	write(host, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"t"}}`)
	write(server, fmt.Sprintf(aPartial, 0, 0), aHandle, fmt.Sprintf(aPartial, 0, 0),
		fmt.Sprintf(aPartial, 3, 3), fmt.Sprintf(aPartial, 4, 4),
		anEnd, fmt.Sprintf(aPartial, 5, 5), `{"jsonrpc":"2.0","id":9,"result":{}}`,
		`{"jsonrpc":"2.0","id":"q","method":"ping"}`)
	write(host, `{"jsonrpc":"2.0","id":"q","error":{"code":-1,"message":"no"}}`)
	var got []string
	for line := range strings.Lines(out.String()) {
		what, _, _ := strings.Cut(line, " | ")
		if fields := strings.Fields(what); fields[0] != "#" {
			got = append(got, strings.Join(fields[1:], " "))
		}
	}
	for n, want := range []string{
		"<-- notifications/tasks/partial: seq 0; OF NO CALL SEEN HERE",
		"--> tools/call t",
		"<-- notifications/tasks/partial: seq 0",
		"<-- response to tools/call t: after",
		"<-- notifications/tasks/partial: seq 0; REPEATED",
		"<-- notifications/tasks/partial: seq 3",
		"<-- notifications/tasks/partial: seq 4; GAP: numbers 1 to 2 of the output did not come (after 2 bytes)",
		"<-- notifications/tasks/status: completed",
		"<-- notifications/tasks/partial: seq 5; TOO LATE",
		"<-- a response: IT ANSWERS NOTHING",
		"<-- ping",
		"--> response to ping: after",
	} {
		if n >= len(got) || !strings.HasPrefix(got[n], want) {
			t.Fatalf("line %d is not %q:\n%s", n, want, strings.Join(got, "\n"))
		}
	}
	broken := New(failing{}, "", nil)
	if broken.Failure() == nil {
		t.Error("a file that cannot be written is no error")
	}
}

// The record shows what was said in a way that no terminal obeys, and a JSON message still says the same.
func TestRecordIsPrintable(t *testing.T) {
	t.Parallel()
	const evil = "\u009b31m\u202egnp\u2028\x7f"
	text := `"` + evil + `\u001b]52;c;eA==\u0007"`
	for range 2 {
		var out bytes.Buffer
		r := New(&out, "", nil)
		for _, line := range []string{
			`{"jsonrpc":"2.0","id":1,"method":` + text + `}`,
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":` + text + `}}`,
			`{"jsonrpc":"2.0","id":2,"error":{"code":1,"message":` + text + `}}`, "\x1b[31mno message \x9b",
			`{"jsonrpc":"2.0","id":` + text + `,"result":{}}`,
			`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":` + text +
				`,"status":` + text + `}}`,
		} {
			for _, d := range []direction{FromHost, fromServer} {
				before := out.Len()
				r.Lines(d)([]byte(line + "\n"))
				noted := strings.TrimSuffix(out.String()[before:], "\n")
				if noted != term.Printable(noted) || !utf8.ValidString(noted) {
					t.Errorf("not printable: %q", noted)
				}
				_, message, _ := strings.Cut(noted, " | ")
				var said, noted2 any
				if json.Unmarshal([]byte(line), &said) == nil &&
					(json.Unmarshal([]byte(message), &noted2) != nil || !reflect.DeepEqual(said, noted2)) {
					t.Errorf("%q became %q", line, message)
				}
			}
		}
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// A side that never answers fills no memory.
func TestTraceIsBounded(t *testing.T) {
	r := New(io.Discard, "", nil)
	for id := range 2 * maxTracked {
		r.message(FromHost, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`, id), 0)
	}
	if n := len(r.asked[FromHost]); n > maxTracked {
		t.Errorf("%d requests are kept", n)
	}
}
