package rpc

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"
)

// How many calls a second one client gets answered, all overhead but the tool's.
func BenchmarkCalls(b *testing.B) {
	r, w := io.Pipe()
	go func() {
		buf := []byte(initializeLine(newest()) + "\n")
		for i := range b.N {
			buf = fmt.Appendf(buf, `{"jsonrpc":"2.0","id":%d,"method":"echo","params":{"name":"echo","arguments":{"text":"hello"}}}`+"\n", i)
			if len(buf) > readSize/2 || i == b.N-1 {
				w.Write(buf)
				buf = buf[:0]
			}
		}
		w.Close()
	}()
	b.ReportAllocs()
	var lines countLines
	if err := echoServer(&Options{MaxInFlight: 1 << 30, Drain: -1}).
		Serve(b.Context(), r, &lines); err != nil {
		b.Fatal(err)
	}
	if int(lines) != b.N+1 {
		b.Fatalf("%d answers to %d calls", lines, b.N)
	}
}

// What a call costs whose line a carrier brings, as HTTP does: in a session that lasts, and in one of its own.
func BenchmarkTake(b *testing.B) {
	const params = `"params":{"name":"echo","arguments":{"text":"hello"}`
	b.Run("handshake", func(b *testing.B) {
		c := echoServer(nil).NewSession(nil)
		defer func() { c.End(ErrCancelled); c.Close() }()
		exchangeLine(b, c, initializeLine(newest()))
		b.ReportAllocs()
		for b.Loop() {
			exchangeLine(b, c, `{"jsonrpc":"2.0","id":1,"method":"echo",`+params+`}}`)
		}
	})
	b.Run("stateless", func(b *testing.B) {
		srv := echoServer(nil)
		const meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
		b.ReportAllocs()
		for b.Loop() {
			c := srv.NewSession(nil)
			exchangeLine(b, c, `{"jsonrpc":"2.0","id":1,"method":"server/discover",`+params+meta+`}}`)
			c.End(ErrCancelled)
			c.Close()
		}
	})
}

// exchangeLine waits for the answer to a line.
func exchangeLine(b *testing.B, c *Session, line string) {
	answer := make(answered, 1)
	if _, err := c.Take([]byte(line), answer); err != nil {
		b.Fatal(err)
	}
	if text := <-answer; !bytes.Contains(text, []byte(`"result"`)) {
		b.Fatalf("%s", text)
	}
}

// answered gets the answer to a line.
type answered chan []byte

func (a answered) WriteLines(_ context.Context, lines []byte, _ bool) error {
	if len(lines) > 0 {
		a <- bytes.Clone(lines)
	}
	return nil
}
