package rpc

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

func TestLines(t *testing.T) {
	const limit = 10
	in := "\ufeffone\r\n\n \t\r\n0123456789\n0123456789x\n01234567890123456789\ntwo\n" +
		strings.Repeat("y", 3*readSize) + "\nlast"
	want := []string{"one", "0123456789", "", "", "two", "", "last"}
	for name, r := range map[string]io.Reader{
		"at once":        strings.NewReader(in),
		"byte by byte":   iotest.OneByteReader(strings.NewReader(in)),
		"halves":         iotest.HalfReader(strings.NewReader(in)),
		"EOF with data":  iotest.DataErrReader(strings.NewReader(in)),
		"random lengths": randomReader{strings.NewReader(in)},
	} {
		l := newLineReader(r, limit)
		for i := 0; ; i++ {
			line, err := l.next()
			if err == io.EOF {
				if i != len(want) {
					t.Errorf("%s: %d lines, want %d", name, i, len(want))
				}
				break
			}
			if string(line) != want[i] || (err == errLineTooLong) != (want[i] == "") {
				t.Errorf("%s: line %d is %q (%v), want %q", name, i, line, err, want[i])
			}
		}
	}
}

type randomReader struct{ r io.Reader }

func (r randomReader) Read(b []byte) (int, error) {
	return r.r.Read(b[:min(len(b), 1+rand.IntN(100))])
}

// endless is a line without an end, of n bytes.
type endless struct{ n int }

func (e *endless) Read(b []byte) (int, error) {
	if e.n <= 0 {
		return 0, io.EOF
	}
	n := min(len(b), e.n)
	for i := range b[:n] {
		b[i] = "x{\\\""[i%4]
	}
	e.n -= n
	return n, nil
}

// A line that does not end takes no more memory than the limit says, and none is kept.
func TestEndlessLine(t *testing.T) {
	l := newLineReader(&endless{16 << 20}, 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := l.next(); err != errLineTooLong {
		t.Fatal(err)
	}
	if _, err := l.next(); err != io.EOF {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if d := after.TotalAlloc - before.TotalAlloc; d > 8<<20 {
		t.Errorf("%d bytes were allocated", d)
	}
	if cap(l.buf) > keepBuffer {
		t.Errorf("%d bytes are kept", cap(l.buf))
	}
}

// A long line is for whoever takes it: what follows does not change it, and it does not hold much more memory
// than it needs.
func TestLongLinesStay(t *testing.T) {
	var in strings.Builder
	sizes := []int{5 << 20, 5<<20 + 7, keepBuffer + 1, 3 << 20, 100, 2 << 20}
	for i, size := range sizes {
		in.WriteString(strings.Repeat(string(rune('a'+i)), size) + "\n")
	}
	l := newLineReader(strings.NewReader(in.String()), 8<<20)
	var lines [][]byte
	for i, size := range sizes {
		line, err := l.next()
		if err != nil || len(line) != size {
			t.Fatalf("line %d has %d bytes (%v), want %d", i, len(line), err, size)
		}
		if size > keepBuffer {
			lines = append(lines, line)
			if cap(line) > 2*size+readSize {
				t.Errorf("line %d of %d bytes holds %d", i, size, cap(line))
			}
		}
	}
	if _, err := l.next(); err != io.EOF {
		t.Error(err)
	}
	for _, line := range lines {
		if n := bytes.Count(line, line[:1]); n != len(line) {
			t.Errorf("%d of %d bytes of a line have changed", len(line)-n, len(line))
		}
	}
}

// Many ids leave nothing behind.
func TestManyIDs(t *testing.T) {
	n := 200_000
	if testing.Short() || raceEnabled {
		n = 20_000
	}
	r, w := io.Pipe()
	go func() {
		var b bytes.Buffer
		b.WriteString(initializeLine(newest()) + "\n")
		for i := range n {
			fmt.Fprintf(&b, `{"jsonrpc":"2.0","id":%d,"method":"echo"}`+"\n", i)
			if b.Len() > readSize || i == n-1 {
				w.Write(b.Bytes())
				b.Reset()
			}
		}
		w.Close()
	}()
	var before, after runtime.MemStats
	srv := echoServer(&Options{MaxInFlight: 1 << 30})
	runtime.GC()
	runtime.ReadMemStats(&before)
	var lines countLines
	if err := srv.Serve(t.Context(), r, &lines); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if int(lines) != n+1 {
		t.Errorf("%d answers to %d requests", lines, n)
	}
	if d := int64(after.HeapAlloc) - int64(before.HeapAlloc); d > 8<<20 {
		t.Errorf("%d bytes are kept", d)
	}
}

type countLines int

func (c *countLines) Write(b []byte) (int, error) {
	*c += countLines(bytes.Count(b, []byte("\n")))
	return len(b), nil
}
